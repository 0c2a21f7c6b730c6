"""`dplangevin receipt`: the price of a training from its log."""

from pathlib import Path
from typing import Annotated

import typer

from dplangevin.cli import output
from dplangevin.cli.options import option


def receipt(
    log: Annotated[Path, typer.Argument(help="The log, JSON lines.", show_default=False)],
    json: Annotated[bool, option("What may be published, as one JSON document.", "--json")] = False,
) -> None:
    """Print what a training cost, from the log that it wrote."""
    from dplangevin.receipt.record import Receipt

    found = Receipt.read(log)
    if json:
        output.document(found.statement())
    else:
        print(found)
