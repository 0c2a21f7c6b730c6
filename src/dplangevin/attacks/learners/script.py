"""A short program that shows what an audit found, with NumPy, pandas and the learner alone."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pandas as pd

from dplangevin.attacks.learners.releases import LOWEST, SAID, Fitted, Learner, Trained, parameters
from dplangevin.attacks.learners.sandbox import Table
from dplangevin.attacks.learners.scores import Statistic
from dplangevin.attacks.learners.search import LearnerAudit

FILES, PROGRAM = ("first.csv", "second.csv"), "show.py"
LAST = "print(f'rate of the event: "  # how the last line of a program begins
HEAD = """import warnings
import numpy as np
import pandas as pd
{importing}
def read(file):
    t = pd.read_csv(file, float_precision='round_trip')
    return t.drop(columns='y').to_numpy(), np.array(t['y'].tolist())
D1, D2 = read('{files[0]}'), read('{files[1]}')  # which --out writes"""
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
    """Return the program for the strongest event of an audit; `named` is module:function of a `Trained` learner.

    `prefix` goes before the names of the two files that it reads.
    """
    if not found.judged:
        raise ValueError("all fits were the same: there is no event to show")
    witness = found.confirmed or found.judged[0]
    sign = "<" if witness.event.below else ">="
    body = f"{_score(witness.statistic)} {sign} {witness.event.threshold!r}"
    fit, importing = _made(learner, named)
    lines = [HEAD.format(importing=importing, files=[prefix + file for file in FILES])]
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
    return pd.DataFrame(table.X).add_prefix("x").assign(y=table.y).to_csv(index=False)


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
    given = {name: value for name, value in parameters(learner.estimator).items() if name in names}
    texts = {name: repr(value) for name, value in given.items() if _is_literal(value)}
    if learner.seed:
        texts[learner.seed] = "seed"
    call = ", ".join(f"{name}={text}" for name, text in texts.items())
    return f"{kind.__qualname__}({call}).fit(X, y)", f"from {kind.__module__} import {kind.__qualname__}"


def _is_literal(value: Any) -> bool:
    """Return whether repr(value) can be written; an object that the estimator made for itself cannot."""
    try:
        ast.literal_eval(repr(value))
    except (SyntaxError, ValueError):
        return False
    return True


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
