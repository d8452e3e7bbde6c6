"""What a user may mistype: a type checker complains of every line that ends in `# wrong`, and of no other."""

from sbeed import SAC, SBEED

SBEED("MlpPolicy", "Pendulum-v1", gama=0.99)  # wrong
SBEED("MlpPolicy", "Pendulum-v1", gamma="hello")  # wrong
SBEED("MlpPolicy", "Pendulum-v1", preset="deflt")  # wrong
SBEED("MpPolicy", "Pendulum-v1")  # wrong
SBEED("MlpPolicy", 3)  # wrong
SAC("RbfPolicy", "Pendulum-v1")  # wrong
SAC("MlpPolicy", "Pendulum-v1", eta=0.5)  # wrong
print(SBEED("MlpPolicy", "Pendulum-v1").config.gama)  # wrong
SBEED("MlpPolicy", "Pendulum-v1").learn("many")  # wrong
