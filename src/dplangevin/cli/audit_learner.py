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
from dplangevin.cli.price import MEANING, Neighbours
from dplangevin.reporting.words import NEIGHBOURS, at_least

if TYPE_CHECKING:
    from dplangevin.attacks.learners.search import LearnerAudit
    from dplangevin.privacy import Budget

VIOLATED = 1  # exit status
FACTORS = 1.5, 2.0, 4.0  # violations, in units of the claim, for which the needed runs are printed
COLUMNS = (
    output.Column("pair of tables"),
    output.Column("epsilon >=", number=True, style="bold"),
    output.Column("rates", number=True),
    output.Column("event"),
)


def audit(
    learner: Annotated[
        str | None, typer.Argument(help="module:Class with fit, such as mine:Learner.")
    ] = None,
    args: Annotated[str, option("Arguments of the class: epsilon=1.0,bounds=(-1,1).", "--args")] = "",
    claims: Annotated[str, option("What one fit claims: epsilon,delta.")] = "",
    train: Annotated[
        str | None, option("Instead of LEARNER: module:function of a table (X, y) and a seed.")
    ] = None,
    data: Annotated[Path | None, option("CSV of rows that the tables share; otherwise built rows.")] = None,
    target: Annotated[str | None, option("Column of the labels in --data.")] = None,
    neighbours: Neighbours = "replace_one",
    row_bound: Annotated[float, option("Bound on the norm of the rows that the claim is for.")] = 1.0,
    any_row: Annotated[
        bool, option("The claim is for longer rows and for labels never seen, too.", "--any-row")
    ] = False,
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

    budget = _claims(claims)
    one, together = (learner is None) != (train is None), (data is None) == (target is None)
    require(one, "give module:Class or --train module:function, and not both")
    require(train is None or not args, "--args are for a class: let the function of --train have defaults")
    require(together, "--data and --target belong together: give both or neither")
    estimator = imported(train) if train is not None else made(learner or "", args)
    rows = None if data is None else _read(data, target or "")
    hidden, skipped = map(separated, (ignore, skip))
    candidate, pairs = sandboxed(estimator, rows, neighbours, row_bound, any_row, hidden, skipped, floats)
    if out is not None:
        _check_out(out)
    found = audited(candidate, pairs, budget, runs, jobs=workers())
    program = script.program(found, candidate, train or "") if found.judged else ""
    name = train or f"{learner}{f'({args})' if args else ''}"
    claim = f"claim epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    output.line(f"{name}: {claim}, neighbours {NEIGHBOURS[neighbours]}: {MEANING[neighbours]}.")
    _printed(found, len(pairs))
    if found.violated:
        output.title("This program shows it without dplangevin:")
        print(program, end="")
    if out is not None and program:
        tables = map(script.csv, (found.confirmed or found.judged[0]).tables[1:])
        texts = {script.PROGRAM: program, **dict(zip(script.FILES, tables, strict=True))}
        files.write(out, {name: text.encode() for name, text in texts.items()})
    if found.violated:
        raise typer.Exit(VIOLATED)


def _check_out(out: Path) -> None:
    """Raise an error unless the folder can be written and has no files of other programs with our names."""
    from dplangevin.attacks.learners import script

    names = () if script.is_program(out / script.PROGRAM) else (*script.FILES, script.PROGRAM)
    check_folder(out, [name for name in names if (out / name).exists()], "audit")
    with files.temporary_path(out / script.PROGRAM) as part:
        part.touch()


def made(name: str, args: str) -> Any:
    """Return the object that a class makes of arguments such as ``epsilon=1.0,bounds=(-1, 1)``."""
    kind = imported(name)
    require(
        callable(kind), f"{name} is {type(kind).__name__}: give a class or a function that makes a learner"
    )
    try:
        call: Any = ast.parse(f"_({args})", mode="eval").body
        values: dict[Any, Any] = {word.arg: _literal(word.value) for word in call.keywords}
        named = not call.args and None not in values
    except (SyntaxError, ValueError, AttributeError):
        named = False
    require(named, f"--args {args!r} must be name=value with commas: epsilon=1.0,bounds=(-1,1)")
    try:
        return kind(**values)
    except Exception as error:
        raise ValueError(f"{name}({args}): {error}") from error


def _literal(node: ast.expr) -> Any:
    return float("inf") if isinstance(node, ast.Name) and node.id == "inf" else ast.literal_eval(node)


def _claims(text: str) -> Budget:
    from dplangevin.privacy import Budget

    try:
        epsilon, delta = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--claims {text!r} must be epsilon,delta, such as 1.0,1e-5") from None
    return Budget(epsilon, delta)


def _read(path: Path, target: str) -> tuple[Any, Any]:
    """Return features and labels of a CSV file whose features are numbers."""
    import pandas as pd

    frame = pd.read_csv(path)
    require(target in frame, f"{path} has no column {target!r}; there are {', '.join(map(str, frame))}")
    features, absent = frame.drop(columns=target), frame.index[frame[target].isna()]
    for name in features.select_dtypes(exclude="number"):
        raise ValueError(f"column {name!r} of {path} has text: encode it as numbers first")
    for row in absent:
        raise ValueError(f"{path}, line {row + 2}, column {target!r}: a missing label: remove the row")
    return features.to_numpy(float), frame[target].to_numpy()


def _printed(found: LearnerAudit, pairs: int) -> None:
    """Print the verdict, the judged pairs, the observations and the limits."""
    verdict = "VIOLATED:" if found.violated else "No violation found;"
    sure = f"{100 * found.confidence:g} % confidence"
    output.line(f"{verdict} epsilon is at least {at_least(found.epsilon)} ({sure}).", "bold")
    if not found.violated:
        output.line("This does not prove the claim.")
    judged = [(each.pair.name, each) for each in found.judged]
    if found.confirmed:
        judged.append((f"by new runs: {found.confirmed.pair.name}", found.confirmed))
    output.line()
    rows = [
        (name, at_least(each.epsilon), " ".join(f"{rate:.3f}" for rate in each.rates), each.text)
        for name, each in judged
    ]
    output.table(COLUMNS, rows)
    output.section("Seen without statistics", *map(": ".join, found.observations))
    output.line()
    for pair, error in found.refused.items():
        output.line(f"Not tried: {pair}. No fit can be compared: {error}", indent=2)
    fits = f"{output.counted(found.fits, 'fit')} on {output.counted(pairs, 'pair')}"
    output.line(
        f"{fits}; {found.runs:,} on each table for one bound. The bounds of the judged pairs hold together."
    )
    for factor in FACTORS:
        needed = found.needed(factor)
        many = f"at least {needed:,} runs" if needed else "more runs than are feasible"
        output.line(f"To see an epsilon of {factor * found.claims.epsilon:g} takes {many}.")
