"""`python -m sbeed`: the command line."""

from sbeed.cli import main

main()
