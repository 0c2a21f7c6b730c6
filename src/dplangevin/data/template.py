"""A schema and the rows of its table: templates of schemas, open entries read off the rows, and a summary."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dplangevin.data.columns import MANY, Column, Reading
from dplangevin.data.files import DataError
from dplangevin.data.schema import OPEN, Schema, Unlabelled, is_open
from dplangevin.data.table import (
    NO_NAME,
    SHOWN,
    SPACES,
    UNITS,
    listed,
    no_column,
    no_number,
    numbers,
    quoted,
    shown,
)

YEAR, MONTH, DAY = r"(?:\d{4}|\d{2})", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
DATE = re.compile(
    rf"(?:\d{{4}}([-/.]){MONTH}\1{DAY}|{DAY}([-/. ])(?:{MONTH}|[^\W\d_]{{3,9}})\2{YEAR}|{MONTH}([-/. ]){DAY}\3{YEAR})"
    r"(?:[T ]+\d{1,2}:\d{2}.*)?"
)
FEW = 10  # a target with at most this many different whole numbers has classes
LEAST_ROWS = 20  # a column with at least this many values, all of them different, has no categories
RARE = 5  # a class with fewer rows is reported


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
    _check_names(reading, target, categories, drop)
    path, columns = reading.path, dict(reading.columns)
    given: dict[str, Any] = {"target": target, **_outcome(columns.pop(target), task)}
    dropped: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for name, column in columns.items():
        of = "category" if name in categories else "" if name in drop else column.kind()
        if why := "you said so" if name in drop else _why_dropped(column, of, name in categories):
            dropped[name] = why
        entries[name] = "drop" if why else _open(of)
    given |= reading.form._asdict()
    given["missing"] = {"marks": [*reading.marks], "as": _missing_as(columns, entries)}
    given |= {
        "unlabelled": unlabelled,
        "ranges_from_data": False,
        "kinds_from_data": True,
        "columns": entries,
    }
    if fill:
        given, useless = filled(given, reading)
        dropped |= useless
        given["missing"]["as"] = _missing_as(columns, given["columns"])
    if len(dropped) == len(columns):
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in [*dropped.items()][:SHOWN])
        raise DataError(f"{path}: no column is left to learn from: {why}; to use one, state it in a schema")
    return given, dropped


def _check_names(reading: Reading, target: str, categories: Sequence[str], drop: Sequence[str]) -> None:
    path, names = reading.path, [*reading.columns]
    for name in (target, *categories, *drop):
        if name not in names:
            raise DataError(no_column(path, name, names))
    values = numbers(names)
    if values and values not in ([*range(len(names))], [*range(1, len(names) + 1)]):
        raise DataError(
            f"{path}: its first line has numbers alone ({listed(names)}): add a line with the names of the columns"
        )
    if target in (*categories, *drop):
        raise DataError(
            f"--categories or --drop {quoted(target)}: that is the target; for classes give --task"
        )
    if len(names) < 2:
        raise DataError(
            f"{path}: no column beside the target {target!r}: are the values separated by another character than "
            f"{reading.form.delimiter!r}? Give --delimiter"
        )


def _open(of: str) -> dict[str, str]:
    """Return an entry of a column of this kind that the owner must still state."""
    return {"low": OPEN, "high": OPEN} if of == "number" else {"values": OPEN}


def _missing_as(columns: Mapping[str, Column], entries: Mapping[str, Any]) -> str:
    gaps = any(columns[name].missing for name, entry in entries.items() if entry != "drop")
    return "category" if gaps else "error"


def _outcome(column: Column, task: str | None) -> dict[str, Any]:
    """Return the open classes, or the open range, of the target; raise DataError if it has neither."""
    if column.constant and len(column.texts) < 2:
        only = repr(next(iter(column.texts))) if column.texts else "no value"
        raise DataError(f"{column.where}: every row has {only}, so there is nothing to learn")
    if not _has_classes(column, task):
        if column.constant:
            raise DataError(
                f"{column.where}: all its numbers round to one float64, so regression has nothing to learn; for "
                "classes give --task classification"
            )
        return {"range": _open("number")}
    if column.many:
        why = ": give --task regression"
        if not column.numeric:
            text, line = next(iter(column.others.items()))
            why = f", and {text!r} (line {line}) is not a number: {no_number(text, column.form)}"
        raise DataError(f"{column.where}: more than {MANY} different values are too many for classes{why}")
    return {"classes": OPEN}


def _has_classes(column: Column, task: str | None) -> bool:
    """Return whether a target has classes: without a task, if it has texts, or at most FEW different whole numbers."""
    if task == "regression" and not column.numeric:
        text, line = next(iter(column.others.items()))
        raise DataError(f"{column.at(line)}: {text!r} is not a number: give --task classification")
    if task is not None:
        return task == "classification"
    if column.kind() != "number":
        return True
    return len(column.texts) <= FEW and all(column.form.number(text).is_integer() for text in column.texts)


def _classes(column: Column) -> list[str]:
    """Return the classes in the rows, in order; raise DataError for two texts that are exactly one number."""
    if column.many:
        raise DataError(f"{column.where}: more than {MANY} different values: too many for classes")
    if not column.numeric:
        return sorted(column.texts)
    known: dict[Decimal, str] = {}  # without rounding, because two long codes can be one double
    for text, line in column.texts.items():
        plain = SPACES.sub(" ", text).replace(column.form.thousands or " ", "")
        same = known.setdefault(Decimal(plain.replace(column.form.decimal, ".")), text)
        if same != text:
            raise DataError(
                f"{column.at(line)}: {text!r} and {same!r} are one number: write it one way, or state both as classes "
                "in a schema"
            )
    return [known[value] for value in sorted(known)]


def _why_dropped(column: Column, of: str, chosen: bool = False) -> str:
    """Return why a column of this kind cannot be a feature, or ""; dates that nobody chose as categories are none."""
    if of == "category" and not chosen and all(map(DATE.fullmatch, column.texts)):
        return (
            "it has dates, which are no categories: give their days or years as numbers; if they are codes give "
            "--categories NAME, or state values in the schema"
        )
    reasons = {
        "it has no name": column.name.endswith(NO_NAME),
        "it counts the rows": column.counting,
        "it has no value": of == "empty",
        f"it has more than {MANY} different texts": of == "category" and column.many,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _why_useless(column: Column, categories: bool) -> str:
    """Return why its values, which are private, make a column useless, or ""; codes of categories are texts."""
    if categories and len(column.texts) == column.present >= LEAST_ROWS:
        return "it has another text in every row"
    one = len(column.texts) == 1
    if not column.present or not column.constant or (categories and not one):
        return ""
    return "it has one value" if one else "all its numbers round to one float64"


def _closed(entry: Any, column: Column, target: bool = False) -> tuple[Any, str]:
    """Return an open entry with its values or limits read off the rows, or "drop" and why."""
    if entry == OPEN:
        of = column.kind()
        if why := _why_dropped(column, of):
            return "drop", why
        entry = _open(of)
    if not target and (why := _why_useless(column, "values" in entry)):
        return "drop", why
    if "values" in entry:
        if column.many or not column.texts:
            many = f"more than {MANY} different values" if column.many else "no value"
            raise DataError(f"{column.where}: {many}: drop it, or state its values")
        return {**entry, "values": sorted(column.texts)}, ""
    if not column.present:
        raise DataError(f"{column.where}: it has no value to read a range off")
    if not column.numeric:
        text, line = next(iter(column.others.items()))
        raise DataError(f"{column.at(line)}: {text!r} is not a number, so there is no range to read off")
    if not target and column.low == column.high:  # one value beside missing values
        missing = {word: value for word, value in entry.items() if word == "missing"}
        return {**missing, "values": sorted(column.texts)}, ""
    limits = {"low": column.low, "high": column.high}
    return {**entry, **{word: limits[word] for word in limits if str(entry.get(word)) == OPEN}}, ""


def filled(given: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with open entries read off the rows, whatever these are, and why columns are dropped."""
    if not isinstance(columns := given.get("columns"), Mapping) or not columns:
        raise ValueError(
            f"columns = {columns!r} of the schema must be lines of name: what it has, such as age: {OPEN}"
        )

    def column(name: Any) -> Column:
        if (name := str(name).strip()) not in reading.columns:
            raise DataError(no_column(reading.path, name, [*reading.columns]))
        return reading.columns[name]

    target, range_ = given["target"], given.get("range")
    closed = {
        name: _closed(entry, column(name), column(name).name == str(target).strip())
        for name, entry in columns.items()
        if is_open(entry)
    }
    dropped = {str(name).strip(): why for name, (_, why) in closed.items() if why}
    outcome: dict[str, Any] = {"columns": {**columns, **{name: entry for name, (entry, _) in closed.items()}}}
    if is_open(range_):
        limits = range_ if isinstance(range_, Mapping) else _open("number")
        outcome["range"] = _closed(limits, column(target), target=True)[0]
    if given.get("classes") == OPEN:
        outcome["classes"] = _classes(column(target))
    kinds = bool(given.get("kinds_from_data")) or OPEN in columns.values()
    return {**given, **outcome, "ranges_from_data": True, "kinds_from_data": kinds}, dropped


def predicted(reading: Reading, target: str, given: Mapping[str, Any]) -> str:
    """Say whether the target has classes or is a number, and how to choose the other."""
    column, name = reading.columns[target], shown(target)
    if "range" in given:
        low, high = (given["range"][key] for key in ("low", "high"))
        limits = "" if OPEN in (low, high) else f" from {float(low):.12g} to {float(high):.12g}"
        other = "" if column.many else "; for classes give --task classification"
        return f"Predicting {name}: a number{limits}, so this is regression{other}."
    classes = given["classes"]
    count = (
        f"{len(column.texts)} classes" if classes == OPEN else f"{len(classes)} classes ({listed(classes)})"
    )
    other = "; for numbers give --task regression" if column.numeric else ""
    return f"Predicting {name}: {count}, so this is classification{other}."


def summary(reading: Reading, schema: Schema, dropped: Mapping[str, str]) -> list[str]:
    """Return sentences about the table, the columns that become features, and why (`dropped`) the others do not."""
    form, columns = reading.form, reading.columns
    where = f"{reading.rows:,} rows"
    if reading.lines != reading.rows + 1:
        where += f" on lines 2 to {reading.lines:,} (blank lines, or values in quotes that span lines)"
    marks = f"separator {form.delimiter!r}, encoding {form.encoding}, decimal mark {form.decimal!r}"
    marks += f", {form.thousands!r} between thousands" if form.thousands else ""
    sentences = [f"Read {reading.path.name!r}: {where}; {marks}."]
    texts = []
    for word in ("numbers", "categories"):
        names = [name for name, entry in schema.used.items() if ("values" in entry) == (word == "categories")]
        plural = "" if len(names) == 1 else "s"
        texts.append(f"{len(names)} column{plural} of {word}" + (f" ({listed(names)})" if names else ""))
    sentences.append(f"Learning from {' and '.join(texts)}.")
    reasons = {
        name: dropped.get(name, "the schema says so")
        for name, entry in schema.columns.items()
        if entry == "drop"
    }
    for why in dict.fromkeys(reasons.values()):
        names = [name for name, reason in reasons.items() if reason == why]
        sentences.append(f"Not used, {why}: {listed(names)}.")
    gaps = {name: columns[name].missing for name in schema.used if name in columns and columns[name].missing}
    counts = [f"{n:,} of {shown(name)}" for name, n in [*gaps.items()][:SHOWN]]
    more = f" and of {len(gaps) - SHOWN} more columns" if len(gaps) > SHOWN else ""
    sentences.append(f"Missing values: {', '.join(counts)}{more}." if gaps else "Missing values: none.")
    if lost := columns[schema.target].missing:
        sentences.append(f"Rows without a label, left out: {lost:,} of {reading.rows:,}.")
    of_texts = [name for name, entry in schema.used.items() if "values" in entry]
    for name in [*([] if schema.classes is None else [schema.target]), *of_texts]:
        if name in columns:
            sentences += _mixed(columns[name], labels=name == schema.target)
    return [*sentences, *_doubtful(reading), *reading.notes]


def _mixed(column: Column, labels: bool) -> list[str]:
    """Return at most SHOWN sentences on what may be wrong with the texts of categories or, if `labels`, classes."""
    sentences, name = [], shown(column.name)
    if not column.numeric and column.numbers:
        sentences.append(
            f"{name} has texts and {column.numbers} numbers among {column.present} values: all are categories."
        )
    elif column.texts and all(map(UNITS.fullmatch, column.texts)):
        text, line = next(iter(column.texts.items()))
        sentences.append(
            f"{name} has texts such as {text!r} (line {line}): without units they would be numbers."
        )
    alike: dict[str, str] = {}
    for text, line in column.texts.items():
        same = alike.setdefault("".join(unicodedata.normalize("NFKC", text).casefold().split()), text)
        if same != text:
            sentences.append(
                f"{name} has {same!r} and {text!r} (line {line}), which differ in form alone: they are two categories."
            )
    if rare := [text for text in column.texts if column.counts[text] < RARE] if labels else []:
        texts = ", ".join(f"{t!r} ({column.counts[t]}, line {column.texts[t]})" for t in rare[:SHOWN])
        more = " and others" if len(rare) > SHOWN else ""
        sentences.append(f"Classes with fewer than {RARE} rows: {texts}{more}.")
    return sentences[:SHOWN]


def _doubtful(reading: Reading) -> list[str]:
    """Return at most SHOWN sentences about numbers that may mean something else."""
    sentences = []
    for column in reading.columns.values():
        if column.numeric and column.pointed and reading.form.decimal == ".":
            pointed = [text for text in column.texts if "." in text]
            text = (pointed or [*column.texts])[0]
            sentences.append(
                f"{shown(column.name)}: {text!r} (line {column.texts[text]}) is read as {float(text):g}. If points "
                "stand between thousands, give --decimal , --thousands ."
            )
    return sentences[:SHOWN]


def check_labels(reading: Reading, schema: Schema) -> None:
    """Raise DataError for rows without a label, unless the schema leaves them out."""
    column = reading.columns[schema.target]
    if column.marks_seen - {*(schema.classes or ())} and schema.unlabelled == "error":
        marks = ", ".join(map(repr, sorted(column.marks_seen)))
        raise DataError(
            f"{column.at(column.first_missing)}: a missing label ({marks}), as in {column.missing:,} of "
            f"{reading.rows:,} rows: leave such rows out by --drop-unlabelled, in a schema by unlabelled: drop, or "
            "remove them; if it is a class of its own, take it out of missing: {marks: ...} in a schema"
        )
