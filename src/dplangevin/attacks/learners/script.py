"""A short program that shows what an audit found, with NumPy and the learner alone."""

import ast
import inspect
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.attacks.learners.releases import LOWEST, SAID, Fitted, Learner, Trained, parameters
from dplangevin.attacks.learners.sandbox import Table
from dplangevin.attacks.learners.scores import Statistic
from dplangevin.attacks.learners.search import LearnerAudit

FILES, PROGRAM = ("first.csv", "second.csv"), "show.py"
LAST = "print(f'rate of the event: "  # how the last line of a program begins
HEAD = """import warnings
from pathlib import Path
import numpy as np
{0}
def read(file, labels):
    kinds, path = [('X', float, ({1},)), ('y', labels)], Path(__file__).with_name(file)
    both = np.loadtxt(path, kinds, None, ',', skiprows=1, quotechar='"', encoding='utf-8', unpack=True)
    return [each.copy() for each in both]
D1, D2 = read({2!r}, {4!r}), read({3!r}, {5!r})"""
LOWEST_BIT = """def lowest(x):  # the exponent of the largest power of 2 that x is a multiple of
    top, bottom = float(x).as_integer_ratio()
    return (top & -top).bit_length() - bottom.bit_length()"""
EVENT = """def event(X, y, seed):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter('always')
        try:
            model, said = {fit}, []
        except Exception as error:
            model, said = None, [('raises', type(error), error)]
    said += [('warns', each.category, each.message) for each in found]
    said = [f"{{how}} {{kind.__name__}}: {{' '.join(str(text).split())}}" for how, kind, text in said]
    return {body}
p, q = (np.mean([event(*D, seed) for seed in range({runs})]) for D in (D1, D2))"""
STATEMENTS = {  # a name in a release -> its expression, with the owner and the rest
    r"(.*)\.shape == (.*)": "np.asarray({}).shape == {}",
    r"(.*)\.dtype == (.*)": "np.asarray({}).dtype == {!r}",
    r"(.*?) == (.*)": "np.asarray({}).tolist() == {}",
    r"len\((.*)\)()": "len({})",
    r"(.*)\[(\d+(?:, \d+)*)\]": "np.asarray({})[{}]",
}


def program(found: LearnerAudit, learner: Learner, named: str = "", prefix: str = "") -> str:
    """Return the program of the strongest event; `named`: module:function of a `Trained`; `prefix`: of CSV files."""
    witness = found.confirmed or found.judged[0]
    sign = "<" if witness.event.below else ">="
    body = f"{_score(witness.statistic)} {sign} {witness.event.threshold!r}"
    fit, importing = _made(learner, named)
    kinds = [np.array(table.y.tolist()).dtype.str for table in witness.tables[1:]]
    lines = [HEAD.format(importing, len(witness.pair.first.X[0]), *(prefix + file for file in FILES), *kinds)]
    if isinstance(learner, Fitted) and "(probes)" in body:
        lines.append(f"probes = np.array({learner.probes.tolist()})")
    if "lowest(" in body:
        lines.append(LOWEST_BIT)
    lines.append(EVENT.format(fit=fit, body=body, runs=found.runs))
    allowed = f"{{np.exp({found.claims.epsilon:g}) * q + {found.claims.delta:g}:.4f}}"
    lines.append(f"{LAST}{{p:.4f}} on D1, {{q:.4f}} on D2; the claim allows {allowed} on D1')")
    return "\n".join([*lines, ""])


def is_program(path: Path) -> bool:
    """Return whether a file is a text of `program`."""
    return path.is_file() and f"\n{LAST}".encode() in path.read_bytes()


def csv(table: Table) -> str:
    """Return a table as CSV, with the label in the last column."""
    y = table.y.astype(int) if table.y.dtype == bool else table.y  # NumPy reads booleans as 0 and 1
    return pd.DataFrame(table.X).add_prefix("x").assign(y=y).to_csv(index=False)


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
    kind, names = type(learner.estimator), inspect.signature(type(learner.estimator)).parameters
    texts = {name: _text(value) for name, value in parameters(learner.estimator).items() if name in names}
    texts |= {learner.seed: "seed"} if learner.seed else {}
    call = ", ".join(f"{name}={text}" for name, text in texts.items() if text)
    return f"{kind.__qualname__}({call}).fit(X, y)", f"from {kind.__module__} import {kind.__qualname__}"


def _text(value: Any) -> str:
    """Return an expression of the value; "" for an object that the estimator made for itself."""
    with suppress(SyntaxError, ValueError):
        return repr(ast.literal_eval(repr(value)))
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcSU":
        return f"np.array({_text(value.tolist())}, {value.dtype.str!r})[()]"  # [()]: a number stays one
    if type(value) in (list, tuple) and all(parts := [_text(each) for each in value]):
        return f"{type(value).__name__}([{', '.join(parts)}])"
    return ""


def _score(statistic: Statistic) -> str:
    if len(statistic.names) == 1:
        value = _value(statistic.names[0])
        return f"({value})" if statistic.center is None else f"abs({value} - {statistic.center!r})"
    used = [i for i in range(len(statistic.names)) if statistic.a[i] or statistic.b[i]]
    values = ", ".join(f"float({_value(statistic.names[i])})" for i in used)
    a, b = statistic.a[used].tolist(), statistic.b[used].tolist()
    return f"np.dot(x := np.array([{values}]), {a}) + np.dot(x**2, {b})"


def _value(name: str) -> str:
    """Return the expression of a number or of a statement, which is True or False."""
    if name.startswith(SAID):
        return f"any(each.startswith({name!r}) for each in said)"
    if name.startswith(LOWEST):
        return f"lowest({_value(name.removeprefix(LOWEST))})"
    if match := re.fullmatch(r"(.*) is (nan|inf|-inf)", name):
        return f"str(float({_value(match[1])})) == {match[2]!r}"
    for pattern, expression in STATEMENTS.items():
        if match := re.fullmatch(pattern, name):
            return expression.format(_owner(match[1]), match[2])
    return _owner(name)


def _owner(name: str) -> str:
    """Return the expression of an attribute, or of an answer about the probes."""
    return name.replace("parameters", "model", 1) if re.match("model$|parameters", name) else f"model.{name}"
