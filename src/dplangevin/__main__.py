"""Entry point of `python -m dplangevin`."""

from dplangevin.cli import main

main()
