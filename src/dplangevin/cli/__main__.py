"""Entry point of `python -m dplangevin.cli`."""

from dplangevin.cli import main

main()
