"""The commands `dplangevin compare` (all methods on a user's table) and `dplangevin schema` (its columns)."""

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dplangevin.checks import require
from dplangevin.cli.options import check_folder, option, separated

FILE: Any = {"exists": True, "dir_okay": False, "show_default": False}
TABLE = typer.Argument(help="A table with a header and one record in each row.", **FILE)
TRAIN_SHARE, REPEATS, QUICK_REPEATS = 0.8, 10, 3
SPLITS = 0  # default seed of splits: public, so that pages can be compared
LARGE = 2e8  # bytes of all splits as text; if there are more, all repeats share one split


def schema(
    table: Annotated[Path, TABLE],
    target: Annotated[str, option("The column to predict: classes, or a number (regression).")],
    ranges_from_data: Annotated[
        bool, option("Read ranges and categories off the rows: not private.", "--ranges-from-data")
    ] = False,
    categories: Annotated[list[str] | None, option("A column of codes; may be repeated.")] = None,
    drop_unlabelled: Annotated[bool, option("Drop rows without a label.", "--drop-unlabelled")] = False,
    na: Annotated[list[str] | None, option("Stands for a missing value, too; may be repeated.")] = None,
    delimiter: Annotated[str, option("Separator of values, or tab (default: found).")] = "",
    encoding: Annotated[str, option("utf-8, cp1252, utf-16, ...")] = "utf-8",
    decimal: Annotated[str, option("Decimal mark, . or ,")] = ".",
    thousands: Annotated[str, option("Mark between groups of three digits (default: none).")] = "",
) -> None:
    """Print a template of the schema of a table, with ??? where you state what is public of a column."""
    from dplangevin.data import columns, csv_table
    from dplangevin.data import table_schema as schemas
    from dplangevin.data import template as templates

    require(target not in (categories or ()), f"--categories {target}: that is the target")
    form = columns.Format("\t" if delimiter == "tab" else delimiter, encoding, decimal, thousands)
    marks = [*dict.fromkeys([*columns.MARKS, *(each.strip() for each in na or ())])]
    reading, unlabelled = columns.read(table, form, marks), "drop" if drop_unlabelled else "error"
    for mark in marks[len(columns.MARKS) :]:
        seen = any(mark in column.marks_seen for column in reading.columns.values())
        require(seen, f"--na {mark!r}: no value of {table} is that")
    given, dropped = templates.template(reading, target, ranges_from_data, categories or (), unlabelled)
    typer.echo(templates.predicted(reading, target, given), err=True)
    for name, why in dropped.items():
        typer.echo(f"Not used, {why}: {csv_table.shown(name)}.", err=True)
    typer.echo(schemas.to_yaml(given, table.name), nl=False)


def compare(
    table: Annotated[Path, TABLE],
    schema: Annotated[Path, option("What is public of the columns, see `dplangevin schema`.")],
    epsilon: Annotated[str, option("Privacy budgets, separated by commas.")] = "0.1,1,10",
    delta: Annotated[float, option("A number in (0, 1), best below 1/rows.")] = 1e-5,
    group: Annotated[str | None, option("Column: whose is a row? Every ε is for a person.")] = None,
    rows_per_person: Annotated[int, option("With --group: rows of a person that are used.", min=1)] = 1,
    seed: Annotated[int | None, option("Repeatable: who knows it can compute the noise.", min=0)] = None,
    methods: Annotated[
        list[str] | None, option("Names, with commas, or module.Class of your own.", "--method", "--methods")
    ] = None,
    quick: Annotated[bool, option("A first look: only quick methods, 3 repeats.", "--quick")] = False,
    test: Annotated[Path | None, option("Another table to test on.", **FILE)] = None,
    repeats: Annotated[int | None, option("Random splits, 4/5 to train on (default: 10).", min=2)] = None,
    out: Annotated[Path | None, option("Folder of the results (default: compare-TABLE).")] = None,
) -> None:
    """Compare private learners on a table of your own, at equal promised and at equal proven epsilon.

    The command prints the answer, then a table with intervals. It writes a page, figures and all numbers to a folder.

    The same command continues a run that was interrupted.

    Until the run is complete, keep the file secret-seed in that folder as secret as the rows.
    """
    from dplangevin import files
    from dplangevin.cli.comparison import Comparison, methods_named
    from dplangevin.data import template as templates

    try:
        from dplangevin.cli import compare_page
    except ImportError as error:
        raise ImportError(f"compare needs {error.name}: pip install 'dplangevin[report]'") from error

    group = group and group.strip()  # as the names in a header
    if group is None:
        require(rows_per_person == 1, f"--rows-per-person {rows_per_person}: add --group COLUMN")
    require(None in (group, test), f"--test {test}: with --group the split is by person, leave it out")
    require(0 < delta < 1, f"--delta {delta:g}: must be in (0, 1)")
    epsilons = sorted({float(each) for each in epsilon.split(",")})
    require(all(0 < each < math.inf for each in epsilons), f"--epsilon {epsilon}: need positive numbers")
    stated, reading = read_schema(schema, table, group)
    results = out or Path(f"compare-{table.stem}")
    _check_out(results, schema)
    repeats = repeats or (QUICK_REPEATS if quick else REPEATS)
    one = table.stat().st_size * repeats > LARGE
    drawn = {"train_share": TRAIN_SHARE, "repeats": 1 if one else repeats, "seed": seed or SPLITS}
    splits = drawn if test is None else {"test_file": str(test.resolve())}
    chosen = methods_named([name for text in methods or () for name in separated(text)], quick)
    comparison = Comparison(
        table, stated, splits, chosen, epsilons, delta, repeats, seed, results, group, rows_per_person
    )
    read = [templates.predicted(reading, stated.target, stated.given())]
    read += templates.summary(reading, stated)
    if test is not None and test.samefile(table):
        read.append("The rows to test on are those that are trained on.")
    if group is not None:
        read.append(f"Each ε is for {rows_per_person} of a person's rows ({group}); {comparison.public[0]}.")
    for text in read:
        typer.echo(text, err=True)
    outcome = comparison.run(partial(typer.echo, err=True))
    page = compare_page.Page(comparison, outcome, read, quick)
    files.write(results, page.files())
    page.show()
    comparison.secret.unlink(missing_ok=True)  # last: if printing fails, the same command computes nothing


def read_schema(path: Path, table: Path, group: str | None) -> tuple[Any, Any]:
    """Return the schema and the columns of the table; nothing is learned from the column `group`."""
    from dplangevin.data import columns
    from dplangevin.data import table_schema as schemas

    given = schemas.read(path)
    if group is not None and isinstance(given.get("columns"), dict):
        given["columns"] |= {group: "drop"}
    stated = schemas.Schema.of(given, str(path))
    reading = columns.read(table, stated.form, stated.marks)
    for name in (stated.target, *stated.columns):
        reading.column(name)
    return stated, reading


def _check_out(out: Path, schema: Path) -> None:
    """Raise ValueError for a file, and for a folder with other files or with the schema, which results would replace.

    Files whose name begins with a dot do not count: a killed run, a file system or a notebook left them.
    """
    held = schema.resolve().parent == out.resolve()
    require(not held, f"--out {out} has the schema {schema.name}, which results would replace: name another")
    config = out / "config.yaml"
    ours = config.is_file() and "\nexperiment:\n  compare:\n" in config.read_text(errors="replace")
    check_folder(out, [] if ours else [path.name for path in out.glob("[!.]*")], "comparison")
