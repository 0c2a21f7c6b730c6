"""`dplangevin receipt`: the price of a training from its log."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dplangevin.cli import output
from dplangevin.cli.options import option


def receipt(
    log: Annotated[Path | None, typer.Argument(help="The log, JSON lines.", show_default=False)] = None,
    show: Annotated[
        Literal["report", "json", "registry", "paragraph", "schema"],
        option(
            "What to print: registry is a record for a registry of deployments, schema that of a log's lines."
        ),
    ] = "report",
) -> None:
    """Print what a training cost, from the log that it wrote."""
    import yaml
    from pydantic import TypeAdapter

    from dplangevin.receipt.record import Receipt, Step

    if show == "schema":
        lines = {"first line": Receipt, "every step": Step}
        output.document({name: TypeAdapter(kind).json_schema() for name, kind in lines.items()})
        return
    if log is None:
        raise ValueError("LOG is missing: name the log, or give --show schema")
    found = Receipt.read(log)
    if show == "json":
        output.document(found.statement())
    elif show == "registry":
        print(yaml.safe_dump(found.registry(), sort_keys=False, allow_unicode=True), end="")
    else:
        print(found.paragraph() if show == "paragraph" else found)
