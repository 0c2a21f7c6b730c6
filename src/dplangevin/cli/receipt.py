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
    save: Annotated[Path | None, option("Also write what may be published to this JSON file.")] = None,
) -> None:
    """Print what a training cost, from the log that it wrote."""
    from dplangevin.checks import require
    from dplangevin.receipt.record import LogHeader, LogLine, Receipt

    if show == "schema":
        output.document(
            {"first line": LogHeader.model_json_schema(), "every step": LogLine.model_json_schema()}
        )
        return
    require(log is not None, "LOG is missing: name the log, or give --show schema")
    assert log is not None
    found = Receipt.read(log)
    if show == "json":
        output.document(found.public())
    elif show == "registry":
        import yaml

        print(yaml.safe_dump(found.registry(), sort_keys=False, allow_unicode=True), end="")
    else:
        print(found.paragraph() if show == "paragraph" else found)
    if save is not None:
        found.save(save)
