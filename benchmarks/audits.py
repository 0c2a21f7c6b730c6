"""Audit the learners of conf/audit/published.yaml: python benchmarks/audits.py [NAME ...].

The rows go to benchmarks/audits.csv. A row has the version of its package and the date. Rows of learners
that are not named, or whose package is not installed, stay as they are. A program that shows a violation
without dplangevin goes to docs/audits/NAME.py, its tables beside it; `ruff format docs/audits` breaks its lines.
"""

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from dplangevin import Budget
from dplangevin.attacks.learners import script
from dplangevin.attacks.learners.search import LearnerAudit, audited, shows
from dplangevin.cli.audit_learner import made
from dplangevin.cli.options import imported
from dplangevin.library import sandboxed
from dplangevin.pipeline.config import content, load
from dplangevin.text import csv_bytes

RESULT, PROGRAMS = Path("benchmarks/audits.csv"), Path("docs/audits")
RUNS, CLAIM = 200, (1.0, 0.0)
LARGEST = 1e4  # epsilon that `visible` considers


def main() -> int:
    """Audit the learners that the command line names, by default all."""
    spec = content("audit", "published", load())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(spec['learners'])}")
    names = parser.parse_args().names or list(spec["learners"])
    for name in names:
        of = spec["learners"][name]
        try:
            installed = version(of["package"])
        except PackageNotFoundError:
            print(f"{name}: {of['package']} is not installed (requirements-audits.lock): its row stays")
            continue
        row = {"id": name, "label": of["label"], "package": of["package"], "version": installed}
        row |= {"date": time.strftime("%Y-%m-%d")} | audit(name, of, spec["confidence"])
        print(f"{name}: attack epsilon {row['epsilon_attack']:.3g}, {row['fits']:,} fits", flush=True)
        merged(row, list(spec["learners"]))
    return 0


def audit(name: str, of: Mapping[str, Any], confidence: float) -> dict[str, Any]:
    """Return the columns of one audit; write the program of a violation."""
    trained = "train" in of
    estimator = imported(of["train"]) if trained else made(of["learner"], of.get("args", ""))
    neighbours, runs = of.get("neighbours", "replace_one"), of.get("runs", RUNS)
    hidden = ["not_private_", *of.get("ignore", [])]
    learner, pairs = sandboxed(estimator, None, neighbours, 1.0, False, hidden, of.get("skip", []))
    found = audited(learner, pairs, Budget(*of.get("claims", CLAIM)), runs, confidence)
    shown = found.confirmed or (found.judged[0] if found.judged else None)
    paths = [PROGRAMS / f"{name}{end}" for end in (".py", *(f"_{file}" for file in script.FILES))]
    if not shown or not found.violated:
        for path in paths:
            path.unlink(missing_ok=True)
    elif not trained:  # that of a function of published.py is written by hand
        texts = script.program(found, learner, prefix=f"{name}_"), *map(script.csv, shown.tables[1:])
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
    return {
        "options": options(of, runs),
        "neighbours": neighbours,
        "epsilon_promised": found.claims.epsilon,
        "delta": found.claims.delta,
        "epsilon_attack": found.epsilon,
        "epsilon_visible": visible(found),
        "violated": int(found.violated),
        "confidence": confidence,
        "pair": shown.pair.name if shown else "",
        "event": shown.text if shown else "",
        "observations": "; ".join(f"{each.check}: {each.text}" for each in found.observations),
        "pairs": len(pairs),
        "runs": runs,
        "fits": found.fits,
    }


def visible(found: LearnerAudit) -> float:
    """Return the least epsilon that so many fits on each table would show; inf if none."""
    of = found.claims, found.runs, found.confidence
    low, high = found.claims.epsilon, found.claims.epsilon + 1.0
    while not shows(of[0], high, *of[1:]):
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if shows(of[0], middle, *of[1:]) else (middle, high)
    return high


def options(of: Mapping[str, Any], runs: int) -> str:
    """Return the options of `dplangevin audit` that this audit has."""
    words = [f"--train {of['train']}" if "train" in of else f'{of["learner"]} --args "{of.get("args", "")}"']
    words.append("--claims {:g},{:g}".format(*of.get("claims", CLAIM)))
    if "neighbours" in of:
        words.append(f"--neighbours {of['neighbours']}")
    for name in ("ignore", "skip"):
        if name in of:
            words.append(f'--{name} "{",".join(of[name])}"')
    return " ".join([*words, f"--runs {runs}"])


def merged(row: Mapping[str, Any], order: Sequence[str]) -> None:
    """Write a row in place of the earlier one with its id, in the order of the learners."""
    rows: dict[str, Mapping[Any, Any]] = {row["id"]: row}
    if RESULT.exists():
        before = pd.read_csv(RESULT, keep_default_na=False)[list(row)].to_dict("records")
        rows = {each["id"]: each for each in before if each["id"] in order} | rows
    frame = pd.DataFrame([rows[name] for name in order if name in rows])
    RESULT.write_bytes(csv_bytes(frame))


if __name__ == "__main__":
    sys.exit(main())
