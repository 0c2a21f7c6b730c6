"""The command `dplangevin recommend`: which private learner to use, from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dplangevin.cli import output
from dplangevin.cli.options import budgets, table_file

if TYPE_CHECKING:
    from dplangevin.data.schema import Schema
    from dplangevin.leaderboard import Recommendation, Standing

COLUMNS = (
    output.Column("learner"),
    output.Column("points below no privacy", number=True),
    output.Column("95 % interval", number=True),
    output.Column("tables", number=True),
)
OPEN_PAGE = "docs/leaderboard.md describes these tables and the limits of the numbers."


def recommend(
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A table with a header. Only the header and the number of rows are read.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Privacy budgets, separated by commas.")] = "1",
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Public ranges and categories (`dplangevin schema` writes a template). They determine the number of "
            "columns after encoding.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            help="The number of records, taken as public (default: rows of the table).", show_default=False
        ),
    ] = None,
    columns: Annotated[
        int | None,
        typer.Option(
            help="The number of columns after encoding, with the column of ones.", show_default=False
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(help="The number of classes (default: of the schema, or 2).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Recommend a private learner for a table, from public facts and the results of the leaderboard.

    No value of the table is read. The number of records must be public.
    """
    from dplangevin.leaderboard import recommend as recommended

    facts, said = _facts(table, schema, records, columns, classes)
    found = {each: recommended(*facts, each) for each in budgets(epsilon)}
    if as_json:
        output.document(
            {
                "records": facts[0],
                "columns": facts[1],
                "classes": facts[2],
                "recommended": [
                    {"epsilon": each, **own._asdict(), "standings": [row._asdict() for row in own.standings]}
                    for each, own in found.items()
                ],
            }
        )
        return
    output.line(
        f"Public facts: {facts[0]:,} records, {facts[1]:,} columns after encoding, {facts[2]} classes."
    )
    for text in said:
        output.line(text)
    output.line()
    for text in sentences(found):
        output.line(text, style="bold")
        output.line()
    for own in found.values():
        if own.standings:
            output.line(f"Learners on {own.group}:")
            output.table(COLUMNS, [_row(each) for each in own.standings])
            output.line()
    output.line(OPEN_PAGE)


def sentences(found: Mapping[float, Recommendation]) -> list[str]:
    """Return a sentence for each recommendation, with the budgets that it is for."""
    from dplangevin.text import number

    texts: dict[tuple[str, str], list[str]] = {}
    for epsilon, own in found.items():
        texts.setdefault((own.method, own.reason), []).append(number(epsilon))
    return [
        f"Recommended at ε = {', '.join(each)}: {method}. {reason}"
        for (method, reason), each in texts.items()
    ]


def _row(standing: Standing) -> list[str]:
    from dplangevin.leaderboard import points

    interval = "" if standing.low != standing.low else f"{points(standing.low)} to {points(standing.high)}"
    return [standing.method, points(standing.distance), interval, str(standing.tables)]


def _facts(
    table: Path | None, schema: Path | None, records: int | None, columns: int | None, classes: int | None
) -> tuple[tuple[int, int, int], list[str]]:
    """Return records, columns after encoding and classes, and sentences on what they rest on."""
    from dplangevin.data import table as tables

    said = []
    stated = None if schema is None else _stated(schema)
    if table is not None:
        table_file(table)
        form = tables.Format(tables.header_delimiter(table)) if stated is None else stated.form
        names = tables.header(table, form)
        if stated is not None:
            if absent := [name for name in (stated.target, *stated.used) if name not in names]:
                raise ValueError(f"{tables.no_column(table, absent[0], names)}: change {schema}")
        elif columns is None:
            columns = len(names)
            said.append(
                "Without --schema each column counts as one; that of the label stands for the column of ones."
            )
        if records is None:
            records = tables.records(table, form)
            said.append(
                "The rows were counted, and their number is taken as public. Otherwise give --records."
            )
    if stated is not None:
        from dplangevin.data.loaders.table import feature_names

        if stated.classes is None:
            raise ValueError("the target is a number: the leaderboard has no regression, so use `compare`")
        columns, classes = columns or len(feature_names(stated)), classes or len(stated.classes)
    for name, value in (("records", records), ("columns", columns)):
        if value is None:
            raise ValueError(f"--{name} is missing: give it, or a table and its --schema")
    assert records is not None
    assert columns is not None
    return (records, columns, 2 if classes is None else classes), said


def _stated(path: Path) -> Schema:
    from dplangevin.data import schema as schemas

    return schemas.Schema.of(schemas.read(path), str(path))
