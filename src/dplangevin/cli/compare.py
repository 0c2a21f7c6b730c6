"""`dplangevin compare`, all methods on a table of one's own, and `dplangevin schema`, what is public of its columns."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

TABLE = typer.Argument(help="A table with a header, one row a record.", show_default=False)
TARGET = typer.Option(help="The column to predict: classes, or a number (regression).", show_default=False)
FROM_DATA = typer.Option(
    "--ranges-from-data",
    help="Read ranges and categories off the rows. No guarantee covers that, and every result says so.",
)
TRAIN_SHARE = 0.8
SPLITS = 0  # seed of splits and folds where none is given: public, so that pages can be compared
LARGE = 2e8  # bytes of all splits as text, beyond which all repeats share one split


def schema(
    table: Annotated[Path, TABLE],
    target: Annotated[str, TARGET],
    ranges_from_data: Annotated[bool, FROM_DATA] = False,
) -> None:
    """Write a template of the schema of a table: its columns, with ??? for what you know of them in public."""
    from dplangevin.data import schema as schemas

    given = _told(schemas.template, _there(table), target, ranges_from_data)
    typer.echo(schemas.to_yaml(given, table.name), nl=False)


def compare(
    table: Annotated[Path, TABLE],
    target: Annotated[str, TARGET],
    epsilon: Annotated[str, typer.Option(help="Privacy budgets, separated by commas.")] = "0.1,1,10",
    delta: Annotated[float, typer.Option(help="In (0, 1), best below 1/rows.")] = 1e-5,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by commas, instead of all.", show_default=False)
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method of your own, as module.Class; may be repeated.", show_default=False),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="A table of its own to test on.", show_default=False)
    ] = None,
    repeats: Annotated[int, typer.Option(help="Random splits, four fifths to train on.")] = 10,
    folds: Annotated[
        int | None, typer.Option(help="Cross-validation instead of random splits.", show_default=False)
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="See `dplangevin schema`.", show_default=False)] = None,
    ranges_from_data: Annotated[bool, FROM_DATA] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results (default: compare-TABLE).", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Makes a run repeatable: who knows it can recompute the noise (default: the system's entropy).",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A Dask scheduler, as tcp://HOST:8786 or its file.", show_default=False),
    ] = None,
) -> None:
    """Compare private learners on a table of yours, at equal asked and at equal tight epsilon.

    Prints a table with intervals, and writes a page, figures and all numbers to a folder. A run that was interrupted
    goes on where it stopped. Until it is complete the file secret-seed in that folder is as secret as the rows.
    """
    from rich.console import Console

    from dplangevin import cache, comparison, executor

    try:
        from dplangevin.cli import compare_page
    except ImportError as error:
        raise ImportError(
            f"compare writes a page, with {error.name}: pip install 'dplangevin[report]'"
        ) from error

    stated = _told(_schema, _there(table), target, schema, ranges_from_data)
    if folds is not None and test is not None:
        raise ValueError("give --test or --folds, not both")
    split_seed = SPLITS if seed is None else seed
    splits: dict[str, Any] = {"train_share": TRAIN_SHARE, "repeats": repeats, "seed": split_seed}
    if test is not None:
        splits = {"test_file": _relative(_there(test), table.parent)}
    elif folds is not None:
        splits = {"folds": folds, "seed": split_seed}
    elif table.stat().st_size * repeats > LARGE:
        splits |= {"repeats": 1}
    asked = comparison.Comparison(
        name=re.sub(r"\W+", "_", table.stem),
        folder=table.parent,
        loader={**stated.loader(), "file": table.name, **splits},
        assumptions=stated.assumptions,
        methods=comparison.methods_named(_listed(methods), method or ()),
        epsilons=_numbers(epsilon),
        delta=delta,
        seeds=folds or repeats,
        seed=seed,
        results=out or Path(f"compare-{table.stem}"),
    )
    if cluster is not None:
        os.environ[executor.CLUSTER] = cluster
    console = Console(stderr=True)
    with console.status("Reading the table") as status:

        def progress(name: str) -> None:
            status.update(f"Working out the budgets of {name}")

        outcome = _told(asked.run, progress, status.stop)
    found = compare_page.Page(asked, stated, outcome)
    cache.write(asked.results, found.files())
    asked.forget_secret()
    _print(found)


def _print(found: Any) -> None:
    """The tables and the sentences, and where the rest is."""
    from dplangevin.cli.output import Column, line, table

    for axis in found.AXES:
        line()
        line(found.heading(axis), style="bold")
        columns = [Column("method"), *(Column(f"ε = {each}", number=True) for each in found.epsilons)]
        rows = [[row.label, *(cell.text for cell in row.cells)] for row in found.rows(axis)]
        table(columns, rows)
        for sentence in found.sentences(axis):
            line(sentence)
    line()
    line(found.LEGEND)
    for text in [
        *found.released,
        *found.warnings,
        *found.clipped,
        *(f"{name}: {why}" for name, why in found.notes),
    ]:
        line(text)
    line(f"Page, figures and numbers: {found.asked.results}/index.html, ...")


def _schema(table: Path, target: str, path: Path | None, from_data: bool) -> Any:
    """The schema that is stated, or with `from_data` completed from the rows."""
    from dplangevin.data import DataError
    from dplangevin.data import schema as schemas
    from dplangevin.data.loaders.table import Table

    if path is None and not from_data:
        raise ValueError(
            f"ranges and categories are public inputs: write them with `dplangevin schema {table} --target {target} > "
            "schema.yaml`, fill it in and give --schema schema.yaml; or read them off the data with "
            "--ranges-from-data, which no guarantee covers"
        )
    if path is None:
        return schemas.Schema.of(schemas.template(table, target, fill=True), str(table))
    given = schemas.read(path)
    if "target" not in given:
        raise ValueError(
            f"{path} is no schema, it names no target: `dplangevin schema` writes one to fill in"
        )
    if given["target"] != target:
        raise ValueError(f"{path} is for the target {given['target']!r}, not {target!r}")
    if from_data:
        given = schemas.filled(given, table)
    found = schemas.Schema.of(given, str(path))
    header = next(Table.chunks(table, delimiter=found.delimiter, size=1)).columns
    if others := [name for name in header if name not in (target, *found.columns)]:
        raise DataError(
            f"{path} says nothing of column {', '.join(map(repr, others))} of {table}: add it, or name it with `drop`"
        )
    return found


def _told(function: Any, *args: Any) -> Any:
    """`function(*args)`; its DataError as ValueError, which the command line shows in one line."""
    from dplangevin.data import DataError

    try:
        return function(*args)
    except DataError as error:
        raise ValueError(str(error)) from error


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return sorted({float(each) for each in text.split(",")})
    except ValueError:
        raise ValueError(f"--epsilon {text}: need numbers separated by commas, such as 0.1,1,10") from None
