"""One module per figure: the rows it shows, and `write`, which saves them with their picture."""
