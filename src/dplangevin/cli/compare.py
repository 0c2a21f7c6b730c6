"""The commands `dplangevin compare` (all methods on a user's table) and `dplangevin schema` (its columns)."""

import math
import os
import shlex
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dplangevin.checks import require
from dplangevin.cli.options import check_folder, flag, option, separated, with_options

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
TARGET = PRIVACY("The column to predict: classes, or a number (regression).")
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
    categories: Annotated[list[str] | None, READING("A column of codes; may be repeated.")] = None
    drop: Annotated[list[str] | None, READING("A column not to learn from; may be repeated.")] = None
    drop_unlabelled: Annotated[
        bool, READING("Leave out rows without a label; every result says so.", "--drop-unlabelled")
    ] = False
    na: Annotated[list[str] | None, READING("Stands for a missing value, too; may be repeated.")] = None
    delimiter: Annotated[str | None, READING("Separator of values, or tab (default: found).")] = None
    encoding: Annotated[str | None, READING("utf-8 (default), cp1252, utf-16, ...")] = None
    decimal: Annotated[str | None, READING("Decimal mark, . (default) or ,")] = None
    thousands: Annotated[str | None, READING("Mark between groups of three digits (default: none).")] = None

    def read(self, table: Path) -> Any:
        """Return the columns of a table."""
        from dplangevin.data import columns

        form = {name: value for name in columns.Format._fields if (value := getattr(self, name)) is not None}
        if form.get("delimiter") in ("tab", "\\t"):
            form["delimiter"] = "\t"
        marks = [each.strip() for each in self.na or ()]
        known = [*dict.fromkeys([*columns.MARKS, *marks])]
        reading = columns.read(table_file(table), columns.GUESSED._replace(**form), known)
        present = set[str]().union(*(column.marks_seen for column in reading.columns.values()))
        for mark in marks:
            require(mark in present, f"--na {mark!r}: no value of {table} is that")
        return reading

    def template(self, reading: Any, target: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a schema of the table, and why each dropped column is dropped."""
        from dplangevin.data import template as templates

        unlabelled: Any = "drop" if self.drop_unlabelled else "error"
        lists = self.categories or (), self.drop or ()
        return templates.template(reading, target, self.ranges_from_data, *lists, unlabelled)


@with_options(TableOptions)
def schema(options: TableOptions, table: Annotated[Path, TABLE], target: Annotated[str, TARGET]) -> None:
    """Print a template of the schema of a table, with ??? where you state what is public of a column."""
    from dplangevin.data import csv_table
    from dplangevin.data import table_schema as schemas
    from dplangevin.data import template as templates

    reading = options.read(table)
    given, dropped = options.template(reading, target)
    typer.echo(templates.predicted(reading, target, given), err=True)
    if given["missing"]["as"] != "error":
        used = [name for name, entry in given["columns"].items() if entry != "drop"]
        gaps = [name for name in used if reading.columns[name].missing]
        typer.echo(f"Missing values, a category of their own: {csv_table.listed(gaps)}.", err=True)
    for name, why in dropped.items():
        typer.echo(f"Dropped: {csv_table.shown(name)}, {why}.", err=True)
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
    group: Annotated[
        str | None, PRIVACY("The column that says whose a row is: every ε is for a person.")
    ] = None,
    rows_per_person: Annotated[
        int, PRIVACY("With --group: rows of a person that are used, at most.", min=1, show_default=True)
    ] = 1,
    seed: Annotated[
        int | None, PRIVACY("Makes a run repeatable: who knows it can recompute the noise.", min=0)
    ] = None,
    methods: Annotated[
        list[str] | None,
        METHODS("Names, with commas (default: all), or module.Class of your own.", "--method", "--methods"),
    ] = None,
    quick: Annotated[bool, METHODS("A first look: only quick methods, 3 repeats.", "--quick")] = False,
    test: Annotated[Path | None, SCORES("Another table to test on.")] = None,
    repeats: Annotated[
        int | None, SCORES("Random splits, four fifths to train on (default: 10).", min=2)
    ] = None,
    folds: Annotated[int | None, SCORES("Folds of a cross-validation instead.", min=2)] = None,
    out: Annotated[Path | None, OUTPUT("Folder of the results (default: compare-TABLE).")] = None,
    cluster: Annotated[str | None, OUTPUT("A Dask scheduler: tcp://HOST:8786 or its file.")] = None,
) -> None:
    """Compare private learners on a table of your own, at equal promised and at equal proven epsilon.

    The command prints the answer, then tables with intervals. It writes a page, figures and all numbers to a folder.

    The same command continues a run that was interrupted.

    Until the run is complete, keep the file secret-seed in that folder as secret as the rows.
    """
    from dplangevin import files
    from dplangevin.cli.comparison import Comparison, methods_named
    from dplangevin.data import template as templates
    from dplangevin.pipeline.executor import CLUSTER

    try:
        from dplangevin.cli import compare_page
    except ImportError as error:
        raise ImportError(
            f"compare writes a page, with {error.name}: pip install 'dplangevin[report]'"
        ) from error

    require(
        group is not None or rows_per_person == 1, f"--rows-per-person {rows_per_person}: add --group COLUMN"
    )
    require(None in (group, test), f"--test {test}: with --group the split is by person, leave it out")
    stated, reading, dropped = _schema(options, table, target, schema, group)
    require(None in (folds, repeats), f"--folds {folds}: give it without --repeats")
    repeats = repeats or (QUICK_REPEATS if quick else REPEATS)
    require(0 < delta < 1, f"--delta {delta:g}: must be in (0, 1)")
    results = Path(f"compare-{table.stem}") if out is None else out
    _check_out(results, schema)
    comparison = Comparison(
        table=table,
        schema=stated,
        splits=_splits(table, test, folds, repeats, SPLITS if seed is None else seed),
        methods=methods_named([name for text in methods or () for name in separated(text)], quick),
        epsilons=_budgets(epsilon),
        delta=delta,
        seeds=folds or repeats,
        seed=seed,
        results=results,
        group=group,
        rows_per_person=rows_per_person,
    )
    if cluster is not None:
        os.environ[CLUSTER] = cluster
    predicted = templates.predicted(reading, stated.target, stated.given())
    read = templates.summary(reading, stated, dropped)
    if comparison.splits.get("test_file") == table.name:
        read.append("The rows to test on are those that are trained on.")
    if group is not None:
        many = f"at most {rows_per_person} rows" if rows_per_person > 1 else "one row"
        read.append(f"Each ε is for a person ({group}) with {many}; {comparison.public[0]}.")
    for text in (predicted, *read):
        typer.echo(text, err=True)
    outcome = comparison.run(partial(typer.echo, err=True))
    page = compare_page.Page(comparison, outcome, predicted, read, quick)
    files.write(results, page.files())
    compare_page.show(page)
    comparison.secret.unlink(missing_ok=True)  # last: if printing fails, the same command computes nothing


def table_file(path: Path) -> Path:
    """Return the path of a table after checking that it is a regular file."""
    require(path.is_file(), f"there is no regular file {path}, which would be read more than once")
    return path


def _budgets(text: str) -> list[float]:
    """Return the budgets of --epsilon, ascending."""
    try:
        epsilons = sorted({float(each) for each in text.split(",")})
    except ValueError:
        epsilons = []
    usable = epsilons and all(0 < epsilon < math.inf for epsilon in epsilons)
    require(bool(usable), f"--epsilon {text}: need positive numbers separated by commas, such as 0.1,1,10")
    return epsilons


def _splits(table: Path, test: Path | None, folds: int | None, repeats: int, seed: int) -> dict[str, Any]:
    """Return the arguments of `data.splits.Split`."""
    if test is not None:
        require(folds is None, f"--folds {folds}: give it without --test")
        same = table_file(test).samefile(table)
        return {"test_file": table.name if same else str(test.resolve())}
    if folds is not None:
        return {"folds": folds, "seed": seed}
    one = table.stat().st_size * repeats > LARGE
    return {"train_share": TRAIN_SHARE, "repeats": 1 if one else repeats, "seed": seed}


def _schema(
    options: TableOptions, table: Path, target: str | None, path: Path | None, group: str | None
) -> tuple[Any, Any, dict[str, str]]:
    """Return the schema, the columns of the table, and the reasons why some columns are dropped."""
    from dplangevin.data import DataError, columns
    from dplangevin.data import table_schema as schemas
    from dplangevin.data.csv_table import no_column

    table_file(table)
    if path is None:
        if target is None:
            raise ValueError("--target missing: name the column to predict, or a --schema that names it")
        fix = f"`dplangevin schema {shlex.quote(str(table))} --target {shlex.quote(target)} > schema.yaml`"
        require(
            options.ranges_from_data,
            f"ranges and categories are public inputs: write them with {fix}, fill it in and give "
            "--schema schema.yaml; or read them off the data with --ranges-from-data, which no guarantee covers",
        )
        reading = options.read(table)
        options = replace(options, drop=[*(options.drop or ()), *filter(None, [group])])
        given, dropped = options.template(reading, target)
    else:
        for field in fields(options):
            free = not getattr(options, field.name)
            require(free, f"{flag(field.name)}: the schema {path} says that: change it there")
        given, dropped = schemas.read(path), {}
        no_schema = f"{path} is no schema, it names no target: `dplangevin schema` writes one to fill in"
        require("target" in given, no_schema)
        named = str(given["target"]).strip()
        require(target in (None, named), f"{path} is for the target {named!r}, not {target!r}")
        target = named
        form, marks = schemas.form_of(given, str(path))
        reading = columns.read(table, form, marks)
        reading.column(target)
        if group is not None and isinstance(given.get("columns"), dict):
            given["columns"] |= {group: "drop"}
    stated = schemas.Schema.of(given, str(path or table))
    for name in (name for name in stated.columns if name not in reading.columns):
        raise DataError(f"{no_column(table, name, [*reading.columns])}: change {path}")
    if others := [name for name in reading.columns if name not in (target, *stated.columns)]:
        raise DataError(
            f"{path} says nothing of column {', '.join(map(repr, others))} of {table}: add it, or name it with `drop`"
        )
    return stated, reading, dropped


def _check_out(out: Path, schema: Path | None) -> None:
    """Raise ValueError for a file, and for a folder with other files or with the schema, which results would replace.

    Files whose name begins with a dot do not count: a killed run, a file system or a notebook left them.
    """
    if schema is not None and schema.resolve().parent == out.resolve():
        raise ValueError(
            f"--out {out} has the schema {schema.name}, which results would replace: name another folder"
        )
    config = out / "config.yaml"
    ours = config.is_file() and "\nexperiment:\n  compare:\n" in config.read_text(errors="replace")
    check_folder(out, [] if ours else [path.name for path in out.glob("[!.]*")], "comparison")
