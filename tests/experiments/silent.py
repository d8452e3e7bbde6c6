"""Progress of a figure or a search that is shown nowhere."""


class Silent:
    def begin(self, steps):
        self.total = steps

    def look(self, done, running):
        pass

    def say(self, line):
        pass
