"""A schema and the rows of its table: templates of schemas, open entries read off the rows, and a summary."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dplangevin.data.columns import (
    LEAST_ROWS,
    MANY,
    Column,
    Reading,
    doubtful,
    header_of_numbers,
    kind,
    mixed,
    why_dropped,
    why_useless,
)
from dplangevin.data.files import DataError
from dplangevin.data.schema import OPEN, Schema, Unlabelled, is_open
from dplangevin.data.table import SHOWN, SPACES, Format, listed, no_column, no_number, quoted, shown

YEAR, MONTH, DAY = r"(?:\d{4}|\d{2})", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
DATE = re.compile(
    rf"(?:\d{{4}}([-/.]){MONTH}\1{DAY}|{DAY}([-/. ])(?:{MONTH}|[^\W\d_]{{3,9}})\2{YEAR}|{MONTH}([-/. ]){DAY}\3{YEAR})"
    r"(?:[T ]+\d{1,2}:\d{2}.*)?"
)
FEW = 10  # a target with at most this many different whole numbers has classes
TASKS = "classification", "regression"


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
    path, columns = reading.path, dict(reading.columns)
    for name in (target, *categories, *drop):
        if name not in columns:
            raise DataError(no_column(path, name, [*columns]))
    if header_of_numbers([*columns]):
        raise DataError(
            f"{path}: its first line has numbers alone ({listed([*columns])}): add a line with the names of the columns"
        )
    if both := [name for name in (*categories, *drop) if name == target]:
        raise DataError(
            f"--categories or --drop {quoted(both[0])}: that is the target; for classes give --task"
        )
    if len(columns) < 2:
        raise DataError(
            f"{path}: no column beside the target {target!r}: are the values separated by another character than "
            f"{reading.form.delimiter!r}? Give --delimiter"
        )
    outcome = columns.pop(target)
    if outcome.constant and len(outcome.texts) < 2:
        only = repr(next(iter(outcome.texts))) if outcome.texts else "no value"
        raise DataError(f"{path}, column {shown(target)}: every row has {only}, so there is nothing to learn")
    given: dict[str, Any] = {"target": target}
    if not classes_of(reading, outcome, task):
        if outcome.constant:
            raise DataError(
                f"{path}, column {shown(target)}: all its numbers round to one float64, so regression has nothing to "
                "learn; for classes give --task classification"
            )
        given["range"] = {"low": OPEN, "high": OPEN}
    elif not outcome.many:
        given["classes"] = OPEN
    else:
        text, line = ("", 0) if outcome.numeric else outcome.numbers.first
        why = (
            ": give --task regression"
            if outcome.numeric
            else f", and {text!r} (line {line}) is not a number: {no_number(text, reading.form)}"
        )
        raise DataError(
            f"{path}, column {shown(target)}: more than {MANY} different values are too many for classes{why}"
        )
    dropped: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for name, column in columns.items():
        of = "category" if name in categories else "" if name in drop else kind(reading, column)
        if why := "you said so" if name in drop else _why_dropped(column, of, name in categories):
            dropped[name], entries[name] = why, "drop"
        else:
            entries[name] = {"low": OPEN, "high": OPEN} if of == "number" else {"values": OPEN}
    given |= reading.form._asdict()
    gaps = any(columns[name].missing for name, entry in entries.items() if entry != "drop")
    given["missing"] = {"marks": [*reading.marks], "as": "category" if gaps else "error"}
    given |= {"unlabelled": unlabelled, "ranges_from_data": False}
    given |= {"kinds_from_data": True, "columns": entries}
    if fill:
        given, useless = filled(given, reading)
        dropped |= useless
        used = [name for name, entry in given["columns"].items() if entry != "drop"]
        if not any(columns[name].missing for name in used):
            given["missing"]["as"] = "error"
    if len(dropped) == len(columns):
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in [*dropped.items()][:SHOWN])
        raise DataError(f"{path}: no column is left to learn from: {why}; to use one, state it in a schema")
    return given, dropped


def classes_of(reading: Reading, outcome: Column, task: str | None) -> bool:
    """Return whether a target has classes: without a task, if it has texts, or at most FEW different whole numbers."""
    if task is not None:
        if task == "regression" and not outcome.numeric:
            text, line = outcome.numbers.first
            raise DataError(
                f"{reading.at(line, outcome.name)}: {text!r} is not a number: give --task classification"
            )
        return task == "classification"
    if not outcome.numeric:
        kind(reading, outcome)
        return True
    return len(outcome.texts) <= FEW and all(reading.form.number(text).is_integer() for text in outcome.texts)


def classes(reading: Reading, outcome: Column) -> list[str]:
    """Return the classes in the rows, in order; raise DataError for two texts that are exactly one number."""
    if not outcome.numeric:
        return sorted(outcome.texts)
    known: dict[Decimal, str] = {}
    for text, line in outcome.texts.items():
        if (same := known.setdefault(_exact(reading.form, text), text)) != text:
            raise DataError(
                f"{reading.at(line, outcome.name)}: {text!r} and {same!r} are one number: write it one way, or state "
                "both as classes in a schema"
            )
    return [known[value] for value in sorted(known)]


def _exact(form: Format, text: str) -> Decimal:
    """Return a number without rounding, because two long codes can be one double."""
    return Decimal(SPACES.sub(" ", text).replace(form.thousands or " ", "").replace(form.decimal, "."))


def _why_dropped(column: Column, of_kind: str, chosen: bool = False) -> str:
    """Return why a column cannot be a feature, or ""; dates that nobody chose as categories are none."""
    if of_kind == "category" and not chosen and all(map(DATE.fullmatch, column.texts)):
        return (
            "it has dates, which are no categories: give their days or years as numbers; if they are codes give "
            "--categories NAME, or state values in the schema"
        )
    return why_dropped(column, of_kind)


def _useless(column: Column, categories: bool) -> str:
    """Return why a column cannot be a feature, or ""; codes of categories are texts, whatever their doubles are."""
    if categories and column.constant and 1 < len(column.texts) < max(LEAST_ROWS, column.present):
        return ""
    return why_useless(column, categories)


def _limits(reading: Reading, column: Column) -> dict[str, float]:
    if not column.numeric:
        if not column.present:
            raise DataError(
                f"{reading.path}, column {shown(column.name)}: it has no value to read a range off"
            )
        text, line = column.numbers.first
        raise DataError(
            f"{reading.at(line, column.name)}: {text!r} is not a number, so there is no range to read off"
        )
    return {"low": column.numbers.low, "high": column.numbers.high}


def filled(given: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with open entries read off the rows, whatever these are, and why columns are dropped."""
    if not isinstance(columns := given.get("columns"), Mapping) or not columns:
        raise ValueError(
            f"columns = {columns!r} of the schema must be lines of name: what it has, such as age: {OPEN}"
        )
    dropped: dict[str, str] = {}

    def close(name: str, entry: Any) -> Any:
        if not is_open(entry):
            return entry
        name = name.strip()
        if name not in reading.columns:
            raise DataError(no_column(reading.path, name, [*reading.columns]))
        column = reading.columns[name]
        if entry == OPEN:
            of = kind(reading, column)
            if why := _why_dropped(column, of):
                dropped[name] = why
                return "drop"
            entry = {"low": OPEN, "high": OPEN} if of == "number" else {"values": OPEN}
        if name != target and (why := _useless(column, "values" in entry)):
            dropped[name] = why
            return "drop"
        if "values" in entry:
            if column.many or not column.texts:
                many = f"more than {MANY} different values" if column.many else "no value"
                raise DataError(f"{reading.path}, column {shown(name)}: {many}: drop it, or state its values")
            return {**entry, "values": sorted(column.texts)}
        limits = _limits(reading, column)
        if name != target and limits["low"] == limits["high"]:  # one value beside missing values
            missing = {word: value for word, value in entry.items() if word == "missing"}
            return {**missing, "values": sorted(column.texts)}
        return {**entry, **{word: limits[word] for word in limits if str(entry.get(word)) == OPEN}}

    target = str(given["target"]).strip()
    columns = {name: close(str(name), entry) for name, entry in columns.items()}
    outcome: dict[str, Any] = {}
    if is_open(given.get("range")):
        limits = given["range"] if isinstance(given["range"], Mapping) else {"low": OPEN, "high": OPEN}
        outcome["range"] = close(target, limits)
    if given.get("classes") == OPEN:
        if target not in reading.columns:
            raise DataError(no_column(reading.path, target, [*reading.columns]))
        if reading.columns[target].many:
            raise DataError(
                f"{reading.path}, column {shown(target)}: more than {MANY} different values: too many for classes"
            )
        outcome["classes"] = classes(reading, reading.columns[target])
    kinds = bool(given.get("kinds_from_data")) or OPEN in given["columns"].values()
    flags = {"ranges_from_data": True, "kinds_from_data": kinds}
    return {**given, **outcome, "columns": columns, **flags}, dropped


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
            sentences += mixed(columns[name], labels=name == schema.target)
    return [*sentences, *doubtful(reading), *reading.notes]


def check_labels(reading: Reading, schema: Schema) -> None:
    """Raise DataError for rows without a label, unless the schema leaves them out."""
    column = reading.columns[schema.target]
    if column.marks_seen - {*(schema.classes or ())} and schema.unlabelled == "error":
        assert column.first_missing is not None
        marks = ", ".join(map(repr, sorted(column.marks_seen)))
        where = reading.at(column.first_missing, schema.target)
        raise DataError(
            f"{where}: a missing label ({marks}), as in {column.missing:,} of {reading.rows:,} rows: leave such rows "
            "out by --drop-unlabelled, in a schema by unlabelled: drop, or remove them; if it is a class of its own, "
            "take it out of missing: {marks: ...} in a schema"
        )
