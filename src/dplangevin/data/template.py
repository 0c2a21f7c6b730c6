"""A schema and the rows of its table: templates of schemas, open entries read off the rows, and a summary."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dplangevin.checks import require
from dplangevin.data.archives import DataError
from dplangevin.data.columns import MANY, Column, Reading
from dplangevin.data.csv_table import NO_NAME, SHOWN, listed, shown
from dplangevin.data.table_schema import OPEN, Schema, Unlabelled, is_open

YEAR, MONTH, DAY = r"(?:\d{4}|\d{2})", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
DATE = re.compile(
    rf"(?:\d{{4}}([-/.]){MONTH}\1{DAY}|{DAY}([-/. ])(?:{MONTH}|[^\W\d_]{{3,9}})\2{YEAR}|{MONTH}([-/. ]){DAY}\3{YEAR})"
    r"(?:[T ]+\d{1,2}:\d{2}.*)?"
)
FEW = 10  # a target with at most this many different whole numbers has classes
LEAST_ROWS = 20  # a column with at least this many values, all of them different, has no categories
TASKS = "classification", "regression"
RANGE, VALUES = {"low": OPEN, "high": OPEN}, {"values": OPEN}  # entries that the owner must still state


def template(
    reading: Reading,
    target: str,
    fill: bool = False,
    task: str | None = None,
    categories: Sequence[str] = (),
    drop: Sequence[str] = (),
    unlabelled: Unlabelled = "error",
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a schema of the table, and why each dropped column is dropped.

    Ranges and categories are open, or with `fill` read off the rows. `categories` are columns of numbers that are
    codes.
    """
    path, form, columns = reading.table.path, reading.table.form, dict(reading.columns)
    for name in (target, *categories, *drop):
        reading.column(name)
    require(
        target not in (*categories, *drop),
        f"--categories or --drop {target}: that is the target; for classes give --task",
    )
    if len(columns) < 2:
        raise DataError(
            f"{path}: no column beside the target {target!r}: are the values separated by another character than "
            f"{form.delimiter!r}? Give --delimiter"
        )
    outcome = _outcome(columns.pop(target), task)
    entries, dropped = dict[str, Any](), dict[str, str]()
    for name, column in columns.items():
        entry, why = ("drop", "you said so") if name in drop else _entry(column, name in categories)
        entries[name] = entry
        dropped |= {name: why} if why else {}
    given: dict[str, Any] = {
        "target": target,
        **outcome,
        **form._asdict(),
        "missing": {"marks": [*reading.marks]},
        "unlabelled": unlabelled,
        "ranges_from_data": False,
        "kinds_from_data": True,
        "columns": entries,
    }
    if fill:
        given, useless = filled(given, reading)
        dropped |= useless
    gaps = any(columns[name].missing for name, entry in given["columns"].items() if entry != "drop")
    given["missing"]["as"] = "category" if gaps else "error"
    if len(dropped) == len(columns):
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in [*dropped.items()][:SHOWN])
        raise DataError(f"{path}: no column is left to learn from: {why}; to use one, state it in a schema")
    return given, dropped


def _outcome(column: Column, task: str | None) -> dict[str, Any]:
    """Return the open classes, or the open range, of the target; raise DataError if it has neither.

    Without a task, it has classes if it has texts, or at most FEW different whole numbers.
    """
    if len(column.texts) < 2:
        only = next(map(repr, column.texts), "no value")
        raise DataError(f"{column.where}: every row has {only}, so there is nothing to learn")
    few = column.whole and len(column.texts) <= FEW
    if task == "classification" or (task is None and (column.kind() != "number" or few)):
        return {"classes": OPEN}
    fix = "give --task classification"
    for text in column.others:
        raise DataError(f"{column.at(text)} is not a number: {fix}")
    if column.low == column.high:
        one = "all its numbers round to one float64, so regression has nothing to learn"
        raise DataError(f"{column.where}: {one}; for classes {fix}")
    return {"range": RANGE}


def _entry(column: Column, codes: bool = False) -> tuple[Any, str]:
    """Return the open entry of a column, or "drop" and why; `codes`: numbers and dates are categories."""
    kind = "category" if codes else column.kind()
    if kind == "category" and not codes and all(map(DATE.fullmatch, column.texts)):
        return "drop", (
            "it has dates, which are no categories: give their days or years as numbers; if they are codes give "
            "--categories NAME, or state values in the schema"
        )
    reasons = {
        "it has no name": column.name.endswith(NO_NAME),
        "it counts the rows": column.counting,
        "it has no value": not column.present,
        f"it has more than {MANY} different texts": kind == "category" and column.many,
    }
    why = next((why for why, holds in reasons.items() if holds), "")
    return "drop" if why else RANGE if kind == "number" else VALUES, why


def filled(given: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with open entries read off the rows, whatever these are, and why columns are dropped."""
    columns: Any = given.get("columns")
    fix = f"of the schema must be lines of name: what it has, such as age: {OPEN}"
    require(isinstance(columns, Mapping) and bool(columns), f"columns = {columns!r} {fix}")
    found, dropped = {**given, "columns": {**columns}, "ranges_from_data": True}, dict[str, str]()
    found["kinds_from_data"] = bool(given.get("kinds_from_data")) or OPEN in columns.values()
    for name, entry in columns.items():
        if is_open(entry):
            found["columns"][name], why = _closed(entry, reading.column(str(name).strip()))
            dropped |= {str(name).strip(): why} if why else {}
    limits = RANGE if given.get("range") == OPEN else given.get("range", {})
    if is_open(limits):
        found["range"] = _range(limits, reading.column(given["target"]))
    if given.get("classes") == OPEN:
        found["classes"] = _classes(reading.column(given["target"]))
    return found, dropped


def _closed(entry: Any, column: Column) -> tuple[Any, str]:
    """Return an open entry with its values or limits read off the rows, or "drop" and why."""
    if entry == OPEN:
        entry, why = _entry(column)
        if why:
            return entry, why
    texts, categories = column.texts, "values" in entry
    one = len(texts) < 2 if categories else column.numeric and column.low == column.high
    if categories and len(texts) == column.present >= LEAST_ROWS:
        return "drop", "it has another text in every row"
    if one and column.present and not column.missing:
        return "drop", "it has one value" if len(texts) == 1 else "all its numbers round to one float64"
    if not categories and not one:
        return _range(entry, column), ""
    if column.many or not texts:
        many = f"more than {MANY} different values" if texts else "no value"
        raise DataError(f"{column.where}: {many}: drop it, or state its values")
    missing = {word: value for word, value in entry.items() if word == "missing"}
    return {"values": sorted(texts), **missing}, ""


def _range(entry: Mapping[str, Any], column: Column) -> dict[str, Any]:
    """Return the entry with its open limits read off the rows."""
    if not column.numeric:
        found = f"{next(iter(column.others))!r} is not a number" if column.others else "it has no value"
        raise DataError(f"{column.where}: {found}, so there is no range to read off")
    limits = {"low": column.low, "high": column.high}
    return {**entry, **{word: limits[word] for word in limits if str(entry.get(word)) == OPEN}}


def _classes(column: Column) -> list[str]:
    """Return the classes in the rows, in order; raise DataError for two texts that are exactly one number."""
    if column.many:
        fix = "give --task regression" if column.numeric else "predict another column, or state them"
        raise DataError(f"{column.where}: more than {MANY} different values are too many for classes: {fix}")
    if not column.numeric:
        return sorted(column.texts)
    known: dict[Decimal, str] = {}  # without rounding, because two long codes can be one double
    for text in column.texts:
        same = known.setdefault(Decimal(column.form.plain(text)), text)
        if same != text:
            fix = "write it one way, or state both as classes in a schema"
            raise DataError(f"{column.at(text)} and {same!r} are one number: {fix}")
    return [known[value] for value in sorted(known)]


def predicted(reading: Reading, target: str, given: Mapping[str, Any]) -> str:
    """Say whether the target has classes or is a number, and how to choose the other."""
    column, name = reading.columns[target], shown(target)
    if "range" in given:
        low, high = (given["range"][key] for key in ("low", "high"))
        limits = "" if OPEN in (low, high) else f" from {float(low):.12g} to {float(high):.12g}"
        other = "" if column.many else "; for classes give --task classification"
        return f"Predicting {name}: a number{limits}, so this is regression{other}."
    classes = given["classes"]
    count = f"{len(column.texts if classes == OPEN else classes)} classes"
    count += "" if classes == OPEN else f" ({listed(classes)})"
    other = "; for numbers give --task regression" if column.numeric else ""
    return f"Predicting {name}: {count}, so this is classification{other}."


def summary(reading: Reading, schema: Schema, dropped: Mapping[str, str]) -> list[str]:
    """Return sentences about the table, the columns that become features, and why (`dropped`) the others do not."""
    table, form, columns = reading.table, reading.table.form, reading.columns
    rows, last = len(table.lines), table.lines[-1]
    blank = f" on lines 2 to {last:,} (blank lines, or values in quotes that span lines)"
    where = f"{rows:,} rows{blank * (last != rows + 1)}"
    marks = f"separator {form.delimiter!r}, encoding {form.encoding}, decimal mark {form.decimal!r}"
    marks += f", {form.thousands!r} between thousands" if form.thousands else ""
    categories = [name for name, entry in schema.used.items() if "values" in entry]
    numbers = [name for name in schema.used if name not in categories]
    counts = [
        f"{len(names)} column{'s' * (len(names) != 1)} of {word}{f' ({listed(names)})' if names else ''}"
        for word, names in (("numbers", numbers), ("categories", categories))
    ]
    sentences = [f"Read {table.path.name!r}: {where}; {marks}.", f"Learning from {' and '.join(counts)}."]
    reasons: dict[str, list[str]] = {}
    for name, entry in schema.columns.items():
        if entry == "drop":
            reasons.setdefault(dropped.get(name, "the schema says so"), []).append(name)
    sentences += [f"Not used, {why}: {listed(names)}." for why, names in reasons.items()]
    gaps = [f"{columns[name].missing:,} of {shown(name)}" for name in schema.used if columns[name].missing]
    more = f" and of {len(gaps) - SHOWN} more columns" if len(gaps) > SHOWN else ""
    sentences.append(f"Missing values: {', '.join(gaps[:SHOWN])}{more}." if gaps else "Missing values: none.")
    if lost := columns[schema.target].missing:
        sentences.append(f"Rows without a label, left out: {lost:,} of {rows:,}.")
    for name in [*[schema.target] * (schema.classes is not None), *categories]:
        sentences += _mixed(columns[name])
    return [*sentences, *reading.notes]


def _mixed(column: Column) -> list[str]:
    """Return at most SHOWN sentences on what may be wrong with the texts of categories or classes."""
    sentences, alike, name = list[str](), dict[str, str](), shown(column.name)
    if not column.numeric and column.numbers:
        sentences.append(
            f"{name} has texts and {column.numbers} numbers among {column.present} values: all are categories."
        )
    for text, line in column.texts.items():
        same = alike.setdefault("".join(unicodedata.normalize("NFKC", text).casefold().split()), text)
        if same != text:
            sentences.append(
                f"{name} has {same!r} and {text!r} (line {line}), which differ in form alone: they are two categories."
            )
    return sentences[:SHOWN]
