"""`schema.yaml`: what the owner of a table states in public about its columns.

This module reads schemas, writes templates of them, and loads the rows of a table as its schema says. A
schema gives, for every column, what is known without looking at the rows::

    target: diagnosis
    classes: [benign, malignant]       # or range: {low: 0, high: 350}, of a target that is a number
    delimiter: ","
    encoding: utf-8
    decimal: "."                       # or ","
    thousands: ""                      # or a mark between groups of three digits
    missing: {marks: ["", NA], as: error}   # or category, a value of its own; or midpoint
    unlabelled: error                  # or drop: rows without a label are left out
    ranges_from_data: false
    columns:
      age: {low: 0, high: 120}         # numbers; values outside are clipped
      ward: {values: [A, B, C]}        # categories
      nurse: {values: [x, y], missing: category}
      id: drop

Every value is read as it is written: yes, 1.50 and ${x} are texts. An entry is open if it is exactly ???; the
owner must still state it.

Ranges and categories that are read off private rows can reveal these rows. A guarantee then no longer holds.
A schema with `ranges_from_data: true` says so, and every result that depends on it repeats it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dplangevin.data import DataError, Dataset, yaml_file
from dplangevin.data.columns import (
    MANY,
    MARKS,
    Column,
    Reading,
    doubtful,
    header_of_numbers,
    kind,
    mixed,
    why_dropped,
)
from dplangevin.data.loaders import table
from dplangevin.data.loaders.table import Filling, Unlabelled, filling
from dplangevin.data.table import SHOWN, Format, listed, meant, no_column, no_number, number, quoted, shown

OPEN = "???"  # an entry that the owner must still state
FEW = 10  # a target with at most this many different whole numbers has classes
LEFT_OUT = "rows without a label left out: which rows have one is taken as public"
FROM_DATA = "ranges and categories read off the data, not accounted"
FORMAT = Format._fields
PLAIN = Format()
WORDS = ("target", "classes", "range", *FORMAT, "missing", "unlabelled", "ranges_from_data", "columns")
TASKS = "classification", "regression"


@dataclass(frozen=True)
class Schema:
    """A schema in which no entry is open.

    Attributes
    ----------
    target : str
        The column of the labels.
    columns : mapping
        Name -> {low, high}, {values} or "drop", in the order of the features.
    classes : sequence of str or None
        The classes of the target.
    range : mapping or None
        {low, high} of the target. Exactly one of `classes` and `range` is given.
    form : Format
    marks, missing_as, unlabelled
        See `missing`, `missing_as` and `unlabelled` of `loaders.table.load`.
    ranges_from_data : bool
        Whether ranges or categories were read off the rows.
    """

    target: str
    columns: Mapping[str, Any]
    classes: Sequence[str] | None
    range: Mapping[str, float] | None
    form: Format = PLAIN
    marks: Sequence[str] = MARKS
    missing_as: Mapping[str, Filling] = field(default_factory=dict)
    unlabelled: Unlabelled = "error"
    ranges_from_data: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> "Schema":
        """Check a schema as it was read from a file, and return it.

        Parameters
        ----------
        given : mapping
            The content of the file.
        where : str
            The name of the file, for messages.

        Raises
        ------
        ValueError
            An entry is open, unknown or outside its domain. The message names `where` and the column.
        """
        if unknown := sorted(map(str, set(given) - {*WORDS})):
            raise ValueError(f"{where}: unknown word {unknown[0]!r}{meant(unknown[0], WORDS)}")
        target, columns = given.get("target"), given.get("columns")
        if not isinstance(target, str) or not target or not isinstance(columns, Mapping):
            raise ValueError(f"{where}: need target, the name of a column, and columns, name: what it has")
        target = target.strip()
        entries = {str(name).strip(): entry for name, entry in columns.items()}
        classes, limits = given.get("classes") or None, given.get("range") or None
        if holes := [
            name for name, entry in [(target, classes), (target, limits), *entries.items()] if _open(entry)
        ]:
            more = f" and {len(holes) - SHOWN} more" if len(holes) > SHOWN else ""
            raise ValueError(
                f"{where}: {', '.join(holes[:SHOWN])}{more} still {'has' if len(holes) == 1 else 'have'} {OPEN}: state "
                "them from public knowledge, or drop the column, or read them off the data with --ranges-from-data, "
                "which no guarantee covers"
            )
        if (classes is None) == (limits is None):
            raise ValueError(f"{where}: give classes of the target, or its range, one of them")
        if classes is not None:
            classes = _texts(classes, f"{where}, classes")
        if limits is not None:
            limits = _numbers(limits, f"{where}, range")
        form, marks = form_of(given, where)
        word = filling("missing", (given.get("missing") or {}).get("as", "error"))
        found: dict[str, Any] = {}
        missing_as: dict[str, Filling] = {}
        for name, entry in entries.items():
            here = f"{where}, column {shown(name)}"
            if name == target:
                raise ValueError(f"{where}: {name} is the target: leave it out of columns")
            if entry != "drop":
                if not isinstance(entry, Mapping) or set(entry) - {"missing"} not in (
                    {"low", "high"},
                    {"values"},
                ):
                    raise ValueError(
                        f"{here}: {entry!r} must be {{low: ..., high: ...}}, {{values: [...]}} or drop"
                    )
                missing_as[name] = filling(name, entry.get("missing", word))
                values = {key: value for key, value in entry.items() if key != "missing"}
                entry = (
                    _numbers(values, here)
                    if "low" in values
                    else {"values": _texts(values["values"], f"{here}, values")}
                )
            found[name] = entry
        if all(entry == "drop" for entry in found.values()):
            raise ValueError(f"{where}: no column is left to learn from")
        from_data = str(given.get("ranges_from_data") or "false").lower()
        if from_data not in ("true", "false"):
            raise ValueError(f"{where}: ranges_from_data = {from_data!r} must be true or false")
        unlabelled = given.get("unlabelled") or "error"
        if unlabelled not in ("error", "drop"):
            raise ValueError(f"{where}: unlabelled = {unlabelled!r} must be error or drop")
        left: Unlabelled = "drop" if unlabelled == "drop" else "error"
        return cls(target, found, classes, limits, form, marks, missing_as, left, from_data == "true")

    @property
    def assumptions(self) -> list[str]:
        """The assumptions that every result from this schema must repeat."""
        return [*[FROM_DATA] * self.ranges_from_data, *[LEFT_OUT] * (self.unlabelled == "drop")]

    @property
    def used(self) -> dict[str, Any]:
        """The columns that become features."""
        return {name: entry for name, entry in self.columns.items() if entry != "drop"}

    def given(self) -> dict[str, Any]:
        """Return the schema as a mapping, in the form that `to_yaml` takes."""
        outcome = {"classes": self.classes} if self.range is None else {"range": self.range}
        columns = {
            name: entry if entry == "drop" else {**entry, "missing": self.missing_as[name]}
            for name, entry in self.columns.items()
        }
        missing = {"marks": [*self.marks], "as": "error"}
        how = {"missing": missing, "unlabelled": self.unlabelled, "ranges_from_data": self.ranges_from_data}
        return {"target": self.target, **outcome, **self.form._asdict(), **how, "columns": columns}

    def loader(self) -> dict[str, Any]:
        """Return the arguments of `dplangevin.data.loaders.table.load` that this schema decides."""
        return {
            "label": self.target,
            **({"classes": self.classes} if self.range is None else {"target": self.range}),
            **self.form._asdict(),
            "columns": [*self.used],
            "scale": {name: entry for name, entry in self.used.items() if "low" in entry},
            "categories": {name: entry["values"] for name, entry in self.used.items() if "values" in entry},
            "missing": [*self.marks],
            "missing_as": {name: self.missing_as[name] for name in self.used},
            "unlabelled": self.unlabelled,
        }


def form_of(given: Mapping[str, Any], where: str) -> tuple[Format, list[str]]:
    """Return the format of a table and its marks of missing values; raise ValueError as `Schema.of` does."""
    missing = given.get("missing") or {}
    if not isinstance(missing, Mapping) or set(missing) - {"marks", "as"}:
        raise ValueError(f"{where}: missing = {missing!r} must be {{marks: [...], as: ...}}")
    try:
        form = Format(**{name: str(given[name]) for name in FORMAT if name in given}).check()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return form, _texts(missing.get("marks", MARKS), f"{where}, missing, marks")


def load(folder: str | Path, name: str, file: str | Sequence[str], schema: str | Path, **how: Any) -> Dataset:
    """Load the rows of a table as the schema in a file says.

    The values of a schema do not go through the interpolation of conf/.

    Parameters
    ----------
    folder : str or Path
        The folder of the table and the schema.
    name : str
        Name of the data set.
    file : str or sequence of str
        The table, see `dplangevin.data.loaders.table.load`.
    schema : str or Path
        Path of the schema, relative to `folder`.
    **how
        train_share, repeats, seed, folds, test_file, limit and bias of `dplangevin.data.loaders.table.load`.
    """
    stated = Schema.of(read(Path(folder) / schema), str(schema))
    return table.load(folder, name, file, **stated.loader(), **how)


def _open(entry: Any) -> bool:
    return entry == OPEN or (isinstance(entry, Mapping) and OPEN in [*map(str, entry.values())])


def _texts(values: Any, where: str) -> list[str]:
    """Return stripped texts; raise ValueError unless `values` is a list of different texts."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError(f"{where}: {values!r} must be a list, such as [a, b]")
    if wrong := [value for value in values if isinstance(value, (Mapping, list, tuple)) or value is None]:
        raise ValueError(f"{where}: {wrong[0]!r} must be one text")
    found = [str(value).strip() for value in values]
    if twice := sorted({text for text in found if found.count(text) > 1}):
        raise ValueError(f"{where}: {twice[0]!r} is there twice")
    return found


def _numbers(entry: Any, where: str) -> dict[str, float]:
    """Return low and high as numbers."""
    if not isinstance(entry, Mapping) or set(entry) != {"low", "high"}:
        raise ValueError(f"{where}: {entry!r} must be {{low: ..., high: ...}}")
    if why := next(filter(None, (yaml_file.inexact(str(value)) for value in entry.values())), ""):
        raise ValueError(f"{where}: {why}")
    try:
        found = {name: number(str(entry[name])) for name in ("low", "high")}
    except ValueError:
        raise ValueError(f"{where}: {entry!r} needs low and high, numbers") from None
    if not found["low"] < found["high"]:
        raise ValueError(f"{where}: low = {found['low']:g} must be below high = {found['high']:g}")
    return found


def read(path: Path) -> dict[str, Any]:
    """Return the content of the file as texts, and as lists and mappings of texts.

    Raises
    ------
    ValueError
        The file is not a valid YAML mapping. The message names the line.
    """
    return yaml_file.texts(path)


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

    The schema has the names and kinds of the columns. Ranges and categories are open, or with `fill` read off
    the rows.

    Parameters
    ----------
    fill : bool
        Whether ranges and categories are read off the rows.
    task : str or None
        A member of `TASKS`. None: a target of texts, or of at most FEW different whole numbers, has classes.
    categories : sequence of str
        Columns of numbers that are codes of categories.
    drop : sequence of str
        Columns that are not used.
    unlabelled : {"error", "drop"}
        What is done with rows without a label.

    Raises
    ------
    DataError
        A column is not in the table; the message suggests another name. Or a column of numbers has other
        values; the message names line and value. Or the target does not have two different values.
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
    if outcome.constant:
        raise DataError(
            f"{path}, column {shown(target)}: every row has {_only(outcome)}, so there is nothing to learn"
        )
    given: dict[str, Any] = {"target": target}
    if classes_of(reading, outcome, task):
        if outcome.many:
            text, line = ("", 0) if outcome.numeric else outcome.numbers.first
            why = (
                ""
                if outcome.numeric
                else f", and {text!r} (line {line}) is not a number: {no_number(text, reading.form)}"
            )
            raise DataError(
                f"{path}, column {shown(target)}: more than {MANY} different values are too many for classes"
                + (why or ": give --task regression")
            )
        given["classes"] = classes(reading, outcome) if fill else OPEN
    else:
        given["range"] = _limits(reading, outcome) if fill else {"low": OPEN, "high": OPEN}
    dropped: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for name, column in columns.items():
        of = "category" if name in categories else "" if name in drop else kind(reading, column)
        why = "you said so" if name in drop else why_dropped(column, of, fill)
        if why:
            dropped[name], entries[name] = why, "drop"
        elif of == "number" and not (fill and column.numbers.low == column.numbers.high):
            entries[name] = _limits(reading, column) if fill else {"low": OPEN, "high": OPEN}
        else:
            entries[name] = {"values": _sorted(column) if fill else OPEN}
    if len(dropped) == len(columns):
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in [*dropped.items()][:SHOWN])
        raise DataError(f"{path}: no column is left to learn from: {why}; to use one, state it in a schema")
    gaps = any(columns[name].missing for name, entry in entries.items() if entry != "drop")
    given |= reading.form._asdict()
    given["missing"] = {"marks": [*reading.marks], "as": "category" if fill and gaps else "error"}
    given |= {"unlabelled": unlabelled, "ranges_from_data": fill}
    return {**given, "columns": entries}, dropped


def classes_of(reading: Reading, outcome: Column, task: str | None) -> bool:
    """Return whether a target has classes; otherwise it is a number."""
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
    """Return the classes in the rows, in order; raise DataError if two classes are the same number."""
    if not outcome.numeric:
        return _sorted(outcome)
    known: dict[float, str] = {}
    for text, line in outcome.texts.items():
        if (same := known.setdefault(reading.form.number(text), text)) != text:
            raise DataError(
                f"{reading.at(line, outcome.name)}: {text!r} and {same!r} are one number: write it one way"
            )
    return [known[value] for value in sorted(known)]


def _limits(reading: Reading, column: Column) -> dict[str, float]:
    """Return the smallest and the largest value; raise DataError, naming a value that is not a number."""
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


def _sorted(column: Column) -> list[str]:
    return sorted(column.texts)


def _only(column: Column) -> str:
    return repr(next(iter(column.texts))) if column.texts else "no value"


def filled(given: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with open entries read off the rows, and why each dropped column is dropped.

    Each open entry gets what it asks for (a range, values or classes), whatever the rows look like.
    `ranges_from_data` of the result is True.

    Parameters
    ----------
    given : mapping
        The schema as read from its file.
    reading : Reading
        The table.

    Raises
    ------
    DataError
        A column is not in the table, or the rows do not have what an entry needs. The message names the
        column.
    """
    dropped: dict[str, str] = {}

    def close(name: str, entry: Any) -> Any:
        if not _open(entry):
            return entry
        name = name.strip()
        if name not in reading.columns:
            raise DataError(no_column(reading.path, name, [*reading.columns]))
        column = reading.columns[name]
        if name != target and column.present and column.constant:
            dropped[name] = why_dropped(column, "", rows_shown=True)
            return "drop"
        if entry == OPEN:
            of = kind(reading, column)
            if why := why_dropped(column, of, rows_shown=True):
                dropped[name] = why
                return "drop"
            entry = {"low": OPEN, "high": OPEN} if of == "number" else {"values": OPEN}
        if "values" in entry:
            if column.many or not column.texts:
                many = f"more than {MANY} different values" if column.many else "no value"
                raise DataError(f"{reading.path}, column {shown(name)}: {many}: drop it, or state its values")
            return {**entry, "values": _sorted(column)}
        limits = _limits(reading, column)
        if name != target and limits["low"] == limits["high"]:  # one value beside missing values
            return {
                **{key: value for key, value in entry.items() if key == "missing"},
                "values": _sorted(column),
            }
        return {**entry, **{key: limits[key] for key in ("low", "high") if str(entry.get(key)) == OPEN}}

    target = str(given["target"]).strip()
    columns = {name: close(str(name), entry) for name, entry in given["columns"].items()}
    outcome: dict[str, Any] = {}
    if _open(given.get("range")):
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
    return {**given, **outcome, "columns": columns, "ranges_from_data": True}, dropped


def to_yaml(given: Mapping[str, Any], source: str, reasons: Mapping[str, str] | None = None) -> str:
    """Return the schema as the text of a commented file.

    Parameters
    ----------
    given : mapping
        A schema, for example from `Schema.given` or `template`.
    source : str
        Name of the table, for the first comment.
    reasons : mapping or None
        Column -> why it is dropped.
    """
    how = (
        "# Ranges and categories were READ OFF THE DATA, which no guarantee covers: replace them by public knowledge."
        if given["ranges_from_data"]
        else "# Replace every ??? from public knowledge, not by looking at the rows. Numbers outside are clipped."
    )
    lines = [f"# Schema of {_flow(source)}.", how]
    lines.append("# Columns: {low: 0, high: 1} for numbers, {values: [a, b]} for categories, or drop.")
    for name in ("target", "classes", "range", *FORMAT):
        if name in given:
            lines.append(f"{name}: {_flow(given[name])}")
    lines.append(
        f"missing: {_flow(given['missing'])}  # as: error, category (a value of its own) or midpoint"
    )
    if "unlabelled" in given:
        lines.append(
            f"unlabelled: {given['unlabelled']}  # error, or drop: rows without a label are left out"
        )
    lines += [f"ranges_from_data: {_flow(given['ranges_from_data'])}", "columns:"]
    for name, entry in given["columns"].items():
        why = (reasons or {}).get(name)
        lines.append(f"  {_flow(name)}: {_flow(entry)}" + (f"  # {why}" if why else ""))
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if value == "drop":
        return "drop"
    text = yaml.dump(str(value), default_style='"', allow_unicode=True, width=10**9)
    return text.removesuffix("...\n").strip()


# Sentences about what was read


def predicted(reading: Reading, target: str, given: Mapping[str, Any]) -> str:
    """Say whether the target has classes or is a number, and how to choose the other."""
    column, name = reading.columns[target], shown(target)
    if "range" in given:
        low, high = (given["range"][key] for key in ("low", "high"))
        limits = "" if OPEN in (low, high) else f" from {float(low):.12g} to {float(high):.12g}"
        other = "" if column.many else "; for classes give --task classification"
        return f"Predicting {name}: a number{limits}, so this is regression{other}."
    found = given["classes"]
    count = f"{len(column.texts)} classes" if found == OPEN else f"{len(found)} classes ({listed(found)})"
    other = "; for numbers give --task regression" if column.numeric else ""
    return f"Predicting {name}: {count}, so this is classification{other}."


def summary(reading: Reading, stated: Schema, dropped: Mapping[str, str]) -> list[str]:
    """Return sentences about the table, the columns that become features, and the columns that do not."""
    form, columns = reading.form, reading.columns
    where = f"{reading.rows:,} rows"
    if reading.lines != reading.rows + 1:
        where += f" on lines 2 to {reading.lines:,} (blank lines, or values in quotes that span lines)"
    marks = f"separator {form.delimiter!r}, encoding {form.encoding}, decimal mark {form.decimal!r}"
    marks += f", {form.thousands!r} between thousands" if form.thousands else ""
    found = [f"Read {reading.path.name!r}: {where}; {marks}."]
    kinds = {"numbers": "low", "categories": "values"}
    texts = []
    for word, key in kinds.items():
        names = [name for name, entry in stated.used.items() if key in entry]
        plural = "" if len(names) == 1 else "s"
        texts.append(f"{len(names)} column{plural} of {word}" + (f" ({listed(names)})" if names else ""))
    found.append(f"Learning from {' and '.join(texts)}.")
    reasons = {
        name: dropped.get(name, "the schema says so")
        for name, entry in stated.columns.items()
        if entry == "drop"
    }
    for why in dict.fromkeys(reasons.values()):
        names = [name for name, reason in reasons.items() if reason == why]
        found.append(f"Not used, {why}: {listed(names)}.")
    gaps = {name: columns[name].missing for name in stated.used if name in columns and columns[name].missing}
    counts = [f"{n:,} of {shown(name)}" for name, n in [*gaps.items()][:SHOWN]]
    more = f" and of {len(gaps) - SHOWN} more columns" if len(gaps) > SHOWN else ""
    found.append(f"Missing values: {', '.join(counts)}{more}." if gaps else "Missing values: none.")
    if lost := columns[stated.target].missing:
        found.append(f"Rows without a label, left out: {lost:,} of {reading.rows:,}.")
    of_texts = [name for name, entry in stated.used.items() if "values" in entry]
    for name in [*([] if stated.classes is None else [stated.target]), *of_texts]:
        if name in columns:
            found += mixed(columns[name], labels=name == stated.target)
    return [*found, *doubtful(reading), *reading.notes]


def check_labels(reading: Reading, stated: Schema) -> None:
    """Check that every row has a label, unless the schema leaves out rows without one.

    Raises
    ------
    DataError
        Rows have no label and are not left out. The message gives their number.
    """
    column = reading.columns[stated.target]
    if column.found - {*(stated.classes or ())} and stated.unlabelled == "error":
        assert column.first_missing is not None
        marks = ", ".join(map(repr, sorted(column.found)))
        where = reading.at(column.first_missing, stated.target)
        raise DataError(
            f"{where}: a missing label ({marks}), as in {column.missing:,} of {reading.rows:,} rows: leave such rows "
            "out by --drop-unlabelled, in a schema by unlabelled: drop, or remove them; if it is a class of its own, "
            "take it out of missing: {marks: ...} in a schema"
        )
