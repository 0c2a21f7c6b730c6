"""The commands `dplangevin compare` (all methods on a user's table) and `dplangevin schema` (its columns)."""

import os
import shlex
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dplangevin.cli import output
from dplangevin.cli.options import budgets, flag, option, separated, table_file, with_options

READING, PRIVACY, METHODS, SCORES, OUTPUT = (
    partial(option, rich_help_panel=title, show_default=False)
    for title in (
        "How the table is read",
        "Data and privacy",
        "Methods",
        "How methods are scored",
        "Results and computing",
    )
)
TABLE = typer.Argument(help="A table with a header and one record in each row.", show_default=False)
TARGET = typer.Option(
    help="The column to predict: classes, or a number (regression).",
    rich_help_panel="Data and privacy",
    show_default=False,
)
TRAIN_SHARE, REPEATS, QUICK_REPEATS = 0.8, 10, 3
SPLITS = 0  # default seed of splits and folds: public, so that pages can be compared
LARGE = 2e8  # bytes of all splits as text; if there are more, all repeats share one split


@dataclass(frozen=True)
class TableOptions:
    """The options that say how a table is read, which `schema` and `compare` share."""

    ranges_from_data: Annotated[
        bool,
        PRIVACY("Read ranges and categories off the rows, which no guarantee covers.", "--ranges-from-data"),
    ] = False
    task: Annotated[str | None, READING("classification or regression (default: by the labels).")] = None
    categories: Annotated[list[str] | None, READING("A column of codes; may be repeated.")] = None
    drop: Annotated[list[str] | None, READING("A column not to learn from; may be repeated.")] = None
    drop_unlabelled: Annotated[
        bool, READING("Leave out rows without a label; every result says so.", "--drop-unlabelled")
    ] = False
    na: Annotated[list[str] | None, READING("Stands for a missing value, too; may be repeated.")] = None
    delimiter: Annotated[str | None, READING("Separator of values, or tab (default: found).")] = None
    encoding: Annotated[str | None, READING("utf-8 (default), cp1252, utf-16, ...")] = None
    decimal: Annotated[str | None, READING("Decimal mark, . or , (default: found).")] = None
    thousands: Annotated[str | None, READING("Mark between groups of three digits (default: none).")] = None

    def read(self, table: Path) -> Any:
        """Return the columns of a table."""
        from dplangevin.data import columns

        form = {name: value for name in columns.Format._fields if (value := getattr(self, name)) is not None}
        if form.get("delimiter") in ("tab", "\\t"):
            form["delimiter"] = "\t"
        marks = [each.strip() for each in self.na or ()]
        known = [*dict.fromkeys([*columns.MARKS, *marks])]
        reading = columns.read(table_file(table), **form, marks=known, more_marks=True)
        present = set[str]().union(*(column.marks_seen for column in reading.columns.values()))
        if absent := [mark for mark in marks if mark not in present]:
            raise ValueError(f"--na {absent[0]!r}: no value of {table} is that")
        return reading

    def template(self, reading: Any, target: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a schema of the table, and why each dropped column is dropped."""
        from dplangevin.data import template as templates

        if self.task is not None and self.task not in templates.TASKS:
            raise ValueError(f"--task {self.task}: must be {' or '.join(templates.TASKS)}")
        return templates.template(
            reading,
            target,
            self.ranges_from_data,
            self.task,
            self.categories or (),
            self.drop or (),
            "drop" if self.drop_unlabelled else "error",
        )


@with_options(TableOptions)
def schema(options: TableOptions, table: Annotated[Path, TABLE], target: Annotated[str, TARGET]) -> None:
    """Print a template of the schema of a table, with ??? where you state what is public of a column."""
    from dplangevin.data import schema as schemas
    from dplangevin.data import template as templates

    reading = options.read(table)
    given, dropped = options.template(reading, target)
    for text in (templates.predicted(reading, target, given), *reading.notes):
        typer.echo(text, err=True)
    if given["missing"]["as"] != "error":
        used = [name for name, entry in given["columns"].items() if entry != "drop"]
        gaps = [name for name in used if reading.columns[name].missing]
        typer.echo(f"Missing values, a category of their own: {schemas.listed(gaps)}.", err=True)
    for name, why in dropped.items():
        typer.echo(f"Dropped: {schemas.shown(name)}, {why}.", err=True)
    typer.echo(schemas.to_yaml(given, table.name), nl=False)


@with_options(TableOptions)
def compare(
    options: TableOptions,
    table: Annotated[Path, TABLE],
    target: Annotated[str | None, TARGET] = None,
    schema: Annotated[
        Path | None, PRIVACY("Public ranges and categories of the columns, see `dplangevin schema`.")
    ] = None,
    epsilon: Annotated[str, PRIVACY("Privacy budgets, separated by commas.", show_default=True)] = "0.1,1,10",
    delta: Annotated[float, PRIVACY("A number in (0, 1), best below 1/rows.", show_default=True)] = 1e-5,
    seed: Annotated[
        int | None, PRIVACY("Makes a run repeatable: who knows it can recompute the noise.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        METHODS("Names, with commas (default: all), or module.Class of your own.", "--method", "--methods"),
    ] = None,
    quick: Annotated[bool, METHODS("A first look: only quick methods, 3 repeats.", "--quick")] = False,
    test: Annotated[Path | None, SCORES("Another table to test on.")] = None,
    repeats: Annotated[int | None, SCORES("Random splits, four fifths to train on (default: 10).")] = None,
    folds: Annotated[int | None, SCORES("Folds of a cross-validation instead.")] = None,
    out: Annotated[Path | None, OUTPUT("Folder of the results (default: compare-TABLE).")] = None,
    cluster: Annotated[str | None, OUTPUT("A Dask scheduler: tcp://HOST:8786 or its file.")] = None,
) -> None:
    """Compare private learners on a table of your own, at equal promised and at equal proven epsilon.

    The command prints the answer, then tables with intervals. It writes a page, figures and all numbers to a folder.

    The same command continues a run that was interrupted.

    Until the run is complete, keep the file secret-seed in that folder as secret as the rows.
    """
    from rich.console import Console

    from dplangevin import files
    from dplangevin.cli.comparison import Comparison, methods_named
    from dplangevin.data import template as templates
    from dplangevin.pipeline import executor

    try:
        from dplangevin.cli import compare_page
    except ImportError as error:
        raise ImportError(
            f"compare writes a page, with {error.name}: pip install 'dplangevin[report]'"
        ) from error

    stated, reading, dropped = _schema(options, table, target, schema)
    if repeats is None:
        repeats = QUICK_REPEATS if quick else REPEATS
    elif folds is not None:
        raise ValueError(f"--folds {folds}: give it without --repeats")
    results = Path(f"compare-{table.stem}") if out is None else out
    _ours(results, schema)
    comparison = Comparison(
        table=table,
        schema=stated,
        splits=_splits(table, test, folds, repeats, SPLITS if seed is None else seed),
        methods=methods_named(methods and [name for text in methods for name in separated(text)], quick),
        epsilons=budgets(epsilon),
        delta=delta,
        seeds=folds or repeats,
        seed=seed,
        results=results,
    )
    if cluster is not None:
        os.environ[executor.CLUSTER] = cluster
    predicted = templates.predicted(reading, stated.target, stated.given())
    read = templates.summary(reading, stated, dropped)
    read += [] if test is None else [_read_test(test, table, stated)]
    console = Console(stderr=True)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    for text in (predicted, *read):
        say(text)
    with console.status("Working out the budgets") as status:

        def begin(fits: int) -> None:
            status.stop()
            cores = output.counted(executor.workers(), "core")
            methods = output.counted(len(comparison.methods), "method")
            say(f"{fits:,} fits of {methods} on {cores}. Ctrl-C keeps what is finished.")

        try:
            outcome = comparison.run(begin)
        except KeyboardInterrupt:
            status.stop()
            say(f"What is finished lies in {results}: the same command goes on from there.")
            raise
    page = compare_page.Page(comparison, outcome, predicted, read, quick)
    files.write(results, page.files())
    compare_page.show(page)
    comparison.forget_secret()  # last, so that the same command has nothing to compute if printing fails


def _splits(table: Path, test: Path | None, folds: int | None, repeats: int, seed: int) -> dict[str, Any]:
    """Return the arguments of `data.splits.Split`."""
    if test is not None:
        if folds is not None:
            raise ValueError(f"--folds {folds}: give it without --test")
        return {"test_file": os.path.relpath(table_file(test).resolve(), table.parent.resolve())}
    if folds is not None:
        return {"folds": folds, "seed": seed}
    one = table.stat().st_size * repeats > LARGE
    return {"train_share": TRAIN_SHARE, "repeats": 1 if one else repeats, "seed": seed}


def _read_test(test: Path, table: Path, stated: Any) -> str:
    """Return a sentence about the test table, which must have the format of the other table."""
    from dplangevin.data import columns
    from dplangevin.data.csv_table import listed

    reading = columns.read(test, **stated.form._asdict(), marks=stated.marks)
    more = [name for name in reading.columns if name not in (stated.target, *stated.columns)]
    text = f"Read {test.name!r} to test on: {reading.rows:,} rows, written as the other table"
    text += f"; not used: {listed(more)}" if more else ""
    return text + ("; these are the rows that are trained on." if test.samefile(table) else ".")


def _schema(
    options: TableOptions, table: Path, target: str | None, path: Path | None
) -> tuple[Any, Any, dict[str, str]]:
    """Return the schema, the columns of the table, and the reasons why some columns are dropped.

    With --ranges-from-data, missing parts of the schema are read off the rows.
    """
    from dplangevin.data import DataError, columns
    from dplangevin.data import schema as schemas
    from dplangevin.data import template as templates
    from dplangevin.data.csv_table import no_column

    table_file(table)
    if path is None:
        if target is None:
            raise ValueError("--target missing: name the column to predict, or a --schema that names it")
        if not options.ranges_from_data:
            raise ValueError(
                "ranges and categories are public inputs: write them with `dplangevin schema "
                f"{shlex.quote(str(table))} --target {shlex.quote(target)} > schema.yaml`, fill it in and give "
                "--schema schema.yaml; or read them off the data with --ranges-from-data, which no guarantee covers"
            )
        reading = options.read(table)
        given, dropped = options.template(reading, target)
        stated = schemas.Schema.of(given, str(table))
        return stated, reading, dropped
    for field in fields(options):
        if field.name != "ranges_from_data" and getattr(options, field.name):
            raise ValueError(f"{flag(field.name)}: the schema {path} says that: change it there")
    given = schemas.read(path)
    if "target" not in given:
        raise ValueError(
            f"{path} is no schema, it names no target: `dplangevin schema` writes one to fill in"
        )
    if target is None:
        target = str(given["target"]).strip()
    elif given["target"] != target:
        raise ValueError(f"{path} is for the target {given['target']!r}, not {target!r}")
    form, marks = schemas.form_of(given, str(path))
    reading = columns.read(table, **form._asdict(), marks=marks)
    if target not in reading.columns:
        raise DataError(no_column(table, target, [*reading.columns]))
    dropped = {}
    if options.ranges_from_data:
        given, dropped = templates.filled(given, reading)
    stated = schemas.Schema.of(given, str(path))
    if absent := [name for name in stated.columns if name not in reading.columns]:
        raise DataError(f"{no_column(table, absent[0], [*reading.columns])}: change {path}")
    if others := [name for name in reading.columns if name not in (target, *stated.columns)]:
        raise DataError(
            f"{path} says nothing of column {', '.join(map(repr, others))} of {table}: add it, or name it with `drop`"
        )
    return stated, reading, dropped


def _ours(out: Path, schema: Path | None) -> None:
    """Raise ValueError for a file, and for a folder with other files or with the schema, which results would replace.

    Files whose name begins with a dot do not count: a killed run, a file system or a notebook left them.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: name a folder, which may be a new one")
    if schema is not None and schema.resolve().parent == out.resolve():
        raise ValueError(
            f"--out {out} has the schema {schema.name}, which results would replace: name another folder"
        )
    config = out / "config.yaml"
    if config.is_file() and "\nexperiment:\n  compare:\n" in config.read_text(errors="replace"):
        return
    if there := sorted(path.name for path in out.glob("[!.]*")):
        raise ValueError(
            f"--out {out} has a file that is of no comparison, {there[0]}: name another folder, or a new one"
        )
