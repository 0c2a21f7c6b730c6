"""A schema and the rows of its table: templates of schemas, open or read off the rows, and a summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from dplangevin.checks import require
from dplangevin.data.archives import DataError
from dplangevin.data.columns import MANY, Column, Reading
from dplangevin.data.csv_table import NO_NAME, listed, shown
from dplangevin.data.table_schema import OPEN, Schema

FEW = 10  # a target with at most this many different whole numbers has classes
LEAST_ROWS = 20  # a column with at least this many values, all of them different, has no categories


def template(
    reading: Reading,
    target: str,
    fill: bool = False,
    categories: Sequence[str] = (),
    unlabelled: str = "error",
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a schema of the table, open or with `fill` read off the rows, and why each dropped column is dropped."""
    for name in (target, *categories):
        reading.column(name)
    columns = dict(reading.columns)
    outcome = _outcome(columns.pop(target), fill)
    require(bool(columns), f"{reading.table.path}: no column beside the target {target!r}: give --delimiter")
    found = {name: _entry(column, name in categories, fill) for name, column in columns.items()}
    gaps = any(columns[name].missing for name, (entry, _) in found.items() if entry != "drop")
    given = {
        "target": target,
        **outcome,
        **reading.table.form._asdict(),
        "missing": {"marks": [*reading.marks], "as": "category" if gaps else "error"},
        "unlabelled": unlabelled,
        "ranges_from_data": fill,
        "kinds_from_data": True,
        "columns": {name: entry for name, (entry, _) in found.items()},
    }
    return given, {name: why for name, (_, why) in found.items() if why}


def _outcome(column: Column, fill: bool) -> dict[str, Any]:
    """Return the classes of texts, or of at most FEW different whole numbers; else the range of the target."""
    if len(column.texts) < 2:
        only = next(map(repr, column.texts), "no value")
        raise DataError(f"{column.where}: every row has {only}, so there is nothing to learn")
    if column.kind() == "number" and not (column.whole and len(column.texts) <= FEW):
        return {"range": _limits(column, fill)}
    if column.many:
        raise DataError(f"{column.where}: more than {MANY} different texts: predict another column")
    return {"classes": column.values() if fill else OPEN}


def _limits(column: Column, fill: bool) -> dict[str, Any]:
    return {"low": column.low if fill else OPEN, "high": column.high if fill else OPEN}


def _entry(column: Column, codes: bool, fill: bool) -> tuple[Any, str]:
    """Return the entry of a column, or "drop" and why; `codes`: numbers are categories."""
    kind, many = "category" if codes else column.kind(), len(column.texts)
    one = many == 1 or (kind == "number" and column.low == column.high)
    unique = kind == "category" and many == column.present >= LEAST_ROWS
    reasons = {
        "it has no name": column.name.endswith(NO_NAME),
        "it counts the rows": column.counting,
        "it has no value": not column.present,
        f"it has more than {MANY} different texts": kind == "category" and column.many,
        "it has another text in every row": fill and unique,
        "it has one value": fill and one and not column.missing,
    }
    for why, holds in reasons.items():
        if holds:
            return "drop", why
    if kind == "number" and not (fill and one):
        return _limits(column, fill), ""
    return {"values": column.values() if fill else OPEN}, ""


def predicted(reading: Reading, target: str, given: Mapping[str, Any]) -> str:
    """Say whether the target has classes or is a number, and how to choose the other."""
    names = given.get("classes")
    if names is None:
        known = "a number from {low} to {high}, so this is regression".format(**given["range"])
    else:
        count = "classes" if names == OPEN else f"{len(names)} classes ({listed(names)})"
        known = f"{count}, so this is classification"
    fix = "; if not, state classes or a range in a schema" if reading.columns[target].numeric else ""
    return f"Predicting {shown(target)}: {known}{fix}."


def summary(reading: Reading, schema: Schema) -> list[str]:
    """Return sentences about the table, the columns that become features, and the others."""
    table, columns = reading.table, reading.columns
    marks = "separator {!r}, encoding {}, decimal mark {!r}".format(*table.form)
    marks += f", {table.form.thousands!r} between thousands" if table.form.thousands else ""
    categories = [name for name, entry in schema.used.items() if "values" in entry]
    learned = {"numbers": [name for name in schema.used if name not in categories], "categories": categories}
    kinds = "; ".join(f"{kind} in {listed(names)}" for kind, names in learned.items() if names)
    unused = [name for name in columns if name != schema.target and name not in schema.used]
    gaps = [f"{columns[name].missing:,} of {shown(name)}" for name in schema.used if columns[name].missing]
    lost = columns[schema.target].missing
    return [
        f"Read {table.path.name!r}: {len(table.lines):,} rows; {marks}.",
        f"Columns to learn from: {len(schema.used)}, {kinds}.",
        *[f"Not used: {listed(unused)}."] * bool(unused),
        f"Missing values: {listed(gaps) or 'none'}.",
        *[f"Rows without a label, left out: {lost:,} of {len(table.lines):,}."] * bool(lost),
    ]
