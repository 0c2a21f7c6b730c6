"""A short program that shows what an audit found, with NumPy and the learner alone."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.attacks.learners.releases import LOWEST, Fitted, Learner, Trained, parameters
from dplangevin.attacks.learners.sandbox import Table
from dplangevin.attacks.learners.search import LearnerAudit

INLINE = 12  # rows that are written into the program; more are read from CSV files
FILES, PROGRAM = ("first.csv", "second.csv"), "show.py"
LAST = "print(f'rate of the event: "  # how the last line of a program begins
CLAIM = "epsilon", "delta"  # parameters that are written even where they are the defaults
LOWEST_BIT = """def lowest(x):  # the exponent of the largest power of 2 that x is a multiple of
    top, bottom = float(x).as_integer_ratio()
    return (top & -top).bit_length() - bottom.bit_length()"""
INDEX = re.compile(r"(.*)\[(\d+(?:, \d+)*)\]")


def program(found: LearnerAudit, learner: Learner, named: str = "") -> str:
    """Return the program for the strongest event of an audit; `named` is module:function of a `Trained` learner."""
    if not found.judged:
        raise ValueError("all fits were the same: there is no event to show")
    witness = found.confirmed or found.judged[0]
    tables = witness.tables
    body = _event(witness.statistic, witness.event.threshold, witness.event.below)
    fit, importing = _made(learner, named)
    lines = ["import numpy as np"]
    if "warned" in body:
        lines.insert(0, "import warnings")
    if len(tables.first.X) > INLINE:
        lines.append("import pandas as pd")
    lines.append(importing)
    lines += [f"D{i} = {_written(table, FILES[i - 1])}" for i, table in enumerate(tables[1:], 1)]
    if "(probes)" in body and isinstance(learner, Fitted):
        lines.append(f"probes = np.array({learner.probes.tolist()})")
    if "lowest(" in body:
        lines.append(LOWEST_BIT)
    lines.append("def event(X, y, seed):")
    if "raised" in body:
        lines += ["    try:", f"        model, raised = {fit}, ''", "    except Exception as error:"]
        lines.append("        raised = f'{type(error).__name__}: ' + ' '.join(str(error).split())")
    elif "warned" in body:
        lines.append("    with warnings.catch_warnings(record=True) as found:")
        lines += ["        warnings.simplefilter('always')", f"        model = {fit}"]
        lines.append("    texts = [(w.category.__name__, ' '.join(str(w.message).split())) for w in found]")
        lines.append("    warned = [': '.join(each) for each in texts]")
    else:
        lines.append(f"    model = {fit}")
    lines.append(f"    return {body}")
    lines.append(f"p, q = (np.mean([event(*D, seed) for seed in range({found.runs})]) for D in (D1, D2))")
    allowed = f"{{np.exp({found.claims.epsilon:g}) * q + {found.claims.delta:g}:.4f}}"
    lines.append(f"{LAST}{{p:.4f}} on D1, {{q:.4f}} on D2; the claim allows {allowed} on D1')")
    return "\n".join([*lines, ""])


def is_program(path: Path) -> bool:
    """Return whether a file is a text of `program`."""
    return path.is_file() and f"\n{LAST}".encode() in path.read_bytes()


def csv(table: Table) -> str:
    """Return a table as CSV, with the label in the last column."""
    rows = [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(*table, strict=True)]
    return "\n".join([",".join([*(f"x{i}" for i in range(table.X.shape[1])), "y"]), *rows, ""])


def _written(table: Table, file: str) -> str:
    if len(table.X) > INLINE:
        kind = "str" if table.y.dtype.kind == "U" else ""
        return (
            f"(lambda t: (t.iloc[:, :-1].to_numpy(), t.iloc[:, -1].to_numpy({kind})))(pd.read_csv('{file}'))"
        )
    return f"np.array({table.X.tolist()}), np.array({table.y.tolist()})"


def _made(learner: Learner, named: str) -> tuple[str, str]:
    """Return the expression that fits, and the line that imports."""
    if isinstance(learner, Trained):
        if not named:  # a partial has no name of its own
            named = f"{learner.function.__module__}:{learner.function.__qualname__}"
        module, _, name = named.partition(":")
        return f"{name}(Table(X, y), seed)", (
            f"from {module} import {name.partition('.')[0]}; from collections import namedtuple; "
            "Table = namedtuple('Table', 'X y')"
        )
    kind = type(learner.estimator)
    return f"{construction(learner)}.fit(X, y)", f"from {kind.__module__} import {kind.__qualname__}"


def construction(learner: Fitted) -> str:
    """Return the call that makes the estimator, with the parameters that differ from their defaults."""
    kind, given = type(learner.estimator), parameters(learner.estimator)
    texts = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name == learner.seed:
            texts.append(f"{name}=seed")
        elif name in given and (name in CLAIM or not _same(given[name], parameter.default)):
            value = given[name]
            if not isinstance(value, np.ndarray) and not _is_literal(value):
                continue  # an object that the estimator made for itself
            texts.append(f"{name}={'np.' if isinstance(value, np.ndarray) else ''}{value!r}")
    return f"{kind.__qualname__}({', '.join(texts)})"


def _is_literal(value: Any) -> bool:
    try:
        ast.literal_eval(re.sub(r"\b(inf|nan)\b", "0", repr(value)))
    except (SyntaxError, ValueError):
        return False
    return True


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))


def _event(statistic: Any, threshold: float, below: bool) -> str:
    names = statistic.names
    if len(names) == 1 and (words := _statement(names[0])):
        return f"not ({words})" if below else words
    if len(names) == 1:
        value = _number(names[0])
        text = value if statistic.center is None else f"abs({value} - {statistic.center!r})"
    else:
        used = [i for i in range(len(names)) if statistic.a[i] or statistic.b[i]]
        values = ", ".join(f"float({_statement(names[i]) or _number(names[i])})" for i in used)
        text = f"np.dot(x := np.array([{values}]), {statistic.a[used].tolist()})"
        if statistic.b.any():
            text += f" + np.dot(x**2, {statistic.b[used].tolist()})"
    return f"{text} {'<' if below else '>='} {threshold!r}"


def _number(name: str) -> str:
    if name.startswith(LOWEST):
        return f"lowest({_number(name.removeprefix(LOWEST))})"
    if match := re.fullmatch(r"len\((.*)\)", name):
        return f"len({_owner(match[1])})"
    if match := INDEX.fullmatch(name):
        return f"np.asarray({_owner(match[1])})[{match[2]}]"
    return _owner(name)


def _owner(name: str) -> str:
    """Return the expression of an attribute, or of an answer about the probes."""
    if name == "model" or name.startswith("parameters"):
        return name.replace("parameters", "model", 1)
    return f"model.{name}"


def _statement(name: str) -> str:
    """Return the expression of a statement; "" for a number."""
    if name.startswith("raises "):
        return f"raised.startswith({name.removeprefix('raises ')!r})"
    if name.startswith("warns "):
        return f"any(each.startswith({name.removeprefix('warns ')!r}) for each in warned)"
    if match := re.fullmatch(r"(.*)\.(shape|dtype) == (.*)", name):
        wanted = match[3] if match[2] == "shape" else repr(match[3])
        return f"np.asarray({_owner(match[1])}).{match[2]} == {wanted}"
    if " == " in name:
        owner, _, value = name.partition(" == ")
        return f"np.asarray({_owner(owner)}).tolist() == {value}"
    if match := re.fullmatch(r"(.*) is (nan|inf|-inf)", name):
        return f"str(float({_number(match[1])})) == {match[2]!r}"
    return ""
