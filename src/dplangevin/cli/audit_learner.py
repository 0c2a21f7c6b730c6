"""The command `dplangevin audit`: search for neighbouring tables on which a learner breaks its claim."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dplangevin import files
from dplangevin.checks import require
from dplangevin.cli import output
from dplangevin.cli.options import check_folder, imported, option, separated
from dplangevin.cli.price import Neighbours
from dplangevin.reporting.words import NEIGHBOURS, at_least

if TYPE_CHECKING:
    from dplangevin.attacks.learners.search import LearnerAudit

FACTORS = 1.5, 2.0, 4.0  # violations, in units of the claim, for which the needed runs are printed


def audit(
    claims: Annotated[str, option("What one fit claims: epsilon,delta.")],
    learner: Annotated[str, typer.Argument(help="module:Class with fit, such as mine:Learner.")] = "",
    args: Annotated[str, option("Arguments of the class: epsilon=1.0,bounds=(-1,1).", "--args")] = "",
    train: Annotated[str, option("Instead of LEARNER: module:function of a table and a seed.")] = "",
    data: Annotated[Path | None, option("CSV of rows that the tables share; otherwise built rows.")] = None,
    target: Annotated[str, option("Column of the labels in --data.")] = "",
    neighbours: Neighbours = "replace_one",
    row_bound: Annotated[float, option("Bound on the norm of the rows that the claim is for.")] = 1.0,
    any_row: Annotated[bool, option("The claim is for any row and any label.", "--any-row")] = False,
    ignore: Annotated[str, option("Attributes that are not released, with commas.")] = "not_private_",
    skip: Annotated[str, option("Words in the names of pairs that the claim is not for, with commas.")] = "",
    floats: Annotated[bool, option("Look at the lowest bits of released numbers, too.", "--floats")] = False,
    runs: Annotated[int, option("Fits on each table for one bound.", min=8)] = 1000,
    out: Annotated[Path | None, option("Folder for the pair as CSV and the program that shows it.")] = None,
) -> None:
    """Fit any private learner on neighbouring tables, and search for a violation of its claim."""
    from dplangevin.attacks.learners import script
    from dplangevin.attacks.learners.search import audited
    from dplangevin.library import sandboxed
    from dplangevin.pipeline.executor import workers
    from dplangevin.privacy import Budget

    require(bool(learner) != bool(train), "give module:Class or --train module:function, and not both")
    require(claims.count(",") == 1, f"--claims {claims!r} must be epsilon,delta, such as 1.0,1e-5")
    budget = Budget(*map(float, claims.split(",")))
    rows = None if data is None else _read(data, target)
    hidden, skipped = map(separated, (ignore, skip))
    estimator = imported(train) if train else made(learner, args)
    candidate, pairs = sandboxed(estimator, rows, neighbours, row_bound, any_row, hidden, skipped, floats)
    if out is not None:
        ours = script.is_program(out / script.PROGRAM)
        there = [] if ours else [each for each in (*script.FILES, script.PROGRAM) if (out / each).exists()]
        check_folder(out, there, "audit")
    found = audited(candidate, pairs, budget, runs, jobs=workers())
    program = script.program(found, candidate, train) if found.judged else ""
    claim = f"claim epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    output.line(f"{train or learner}: {claim}, neighbours {NEIGHBOURS[neighbours]}.")
    _print(found)
    if found.violated and out is None:
        output.line("--out FOLDER writes a program that shows it without dplangevin.")
    elif found.violated:
        output.title("This program shows it without dplangevin:")
        print(program, end="")
    if out is not None and program:
        tables = map(script.csv, (found.confirmed or found.judged[0]).tables[1:])
        texts = {script.PROGRAM: program, **dict(zip(script.FILES, tables, strict=True))}
        files.write(out, {name: text.encode() for name, text in texts.items()})
    raise typer.Exit(int(found.violated))


def made(name: str, args: str) -> Any:
    """Return the object that a class makes of arguments such as ``epsilon=1.0,bounds=(-1, 1)``."""
    kind = imported(name)
    try:
        call: Any = ast.parse(f"_({args})", mode="eval").body
        values: dict[Any, Any] = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        named = not call.args
    except (SyntaxError, ValueError, AttributeError):
        named = False
    require(named, f"--args {args!r} must be name=value with commas: epsilon=1.0,bounds=(-1,1)")
    try:
        return kind(**values)
    except Exception as error:
        raise ValueError(f"{name}({args}): {error}") from error


def _read(path: Path, target: str) -> tuple[Any, Any]:
    """Return features and labels of a CSV file whose features are numbers; no message has a value of it."""
    import pandas as pd

    frame = pd.read_csv(path)
    require(target in frame, f"--target {target!r}: {path} has the columns {', '.join(map(str, frame))}")
    features = frame.drop(columns=target)
    for name in features.select_dtypes(exclude="number"):
        raise ValueError(f"column {name!r} of {path} has text: encode it as numbers first")
    require(not frame[target].isna().any(), f"{path}, column {target!r}: a missing label: remove the row")
    return features.to_numpy(float), frame[target].to_numpy()


def _print(found: LearnerAudit) -> None:
    """Print the verdict, the judged pairs, the observations and the limits."""
    verdict = "VIOLATED:" if found.violated else "No violation found, which does not prove the claim;"
    sure = f"{100 * found.confidence:g} % confidence"
    output.line(f"{verdict} epsilon is at least {at_least(found.epsilon)} ({sure}).", bold=True)
    judged = [(each.pair.name, each) for each in found.judged]
    if found.confirmed:
        judged.append((f"by new runs: {found.confirmed.pair.name}", found.confirmed))
    output.line()
    rows = [
        (name, at_least(each.epsilon), " ".join(f"{rate:.3f}" for rate in each.rates), each.text)
        for name, each in judged
    ]
    output.table(("pair of tables", "epsilon >=", "rates", "event"), rows, left=(0, 3))
    output.section("Seen without statistics", *map(": ".join, found.observations))
    refused = [f"{pair}: {error}" for pair, error in found.refused.items()]
    output.section("Not tried: no fit can be compared", *refused)
    output.line()
    output.line(f"{found.fits:,} fits; {found.runs:,} on each table for one bound.")
    for factor in FACTORS:
        many = found.needed(factor)
        needed = f"at least {many:,} runs" if many else "more runs than are feasible"
        output.line(f"To see an epsilon of {factor * found.claims.epsilon:g} takes {needed}.")
