"""`python -m warmstart`."""

from warmstart.cli.main import main

main()
