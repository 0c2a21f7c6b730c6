"""The commands `dplangevin claims`, `exhibits` and `experiments`, which show the contents of a checkout."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dplangevin.checks import require
from dplangevin.cli import output
from dplangevin.cli.options import option
from dplangevin.papers.claims import tally
from dplangevin.reporting.words import at_most
from dplangevin.text import meant, short

CLAIMS, EXHIBITS = "claims.csv", "exhibits"
KINDS = {  # the column `kind` of claims.csv
    "paper": "claims in the papers' own words",
    "reading": 'claims without a size, such as "slightly"; we chose the size',
    "extension": "questions of ours, which the papers do not ask",
}
NUMBERS = "ours", "low", "high", "asked_low", "asked_high"
LABEL = 12  # columns of the labels of one claim
MOST = 8  # ids that a message lists


def claims(
    id: Annotated[str | None, typer.Argument(help="Show all of this claim.", show_default=False)] = None,
    paper: Annotated[str | None, option("wang2015, li2019 or ryffel2022.", show_default=False)] = None,
    verdict: Annotated[
        str | None, option('A verdict or its cause, such as fails or "not testable".', show_default=False)
    ] = None,
) -> None:
    """Count the verdicts on the papers' claims, list what fails, or show one claim."""
    path = in_results(CLAIMS)
    rows = tally.read(path)
    if id is not None:
        whole(claim_named(rows, id), rows, path.parent)
        return
    if paper is not None:
        rows = with_value(rows, paper, "paper")
    if verdict is not None:
        rows = with_value(rows, verdict, "verdict", "cause")
    by_kind = {kind: own for kind in KINDS if (own := [row for row in rows if row["kind"] == kind])}
    for kind, own in by_kind.items():
        summary(kind, own)
    output.line("The column facts counts distinct facts: several claims can restate one.")
    for kind, own in by_kind.items():
        for word in tally.ordered(row["verdict"] for row in own):
            if verdict is not None or (word == "fails" and kind != "extension"):
                output.title(f"{word.capitalize()}, of {KINDS[kind]}:")
                for row in (row for row in own if row["verdict"] == word):
                    output.line(row["title"], indent=2)
                    output.line(f"  {row['id']}")
    output.line()
    more = "" if verdict is not None else " --verdict lists other claims."
    output.line(f"To see one claim whole: dplangevin claims ID.{more}")


def claim_named(rows: Sequence[tally.Claim], id: str) -> tally.Claim:
    """Return the claim with an id; raise ValueError with similar ids if there is none."""
    ids = {row["id"]: row for row in rows}
    plain = id.lower().replace("_", "").replace(" ", "")
    near = [each for each in ids if plain in each.replace("_", "")]
    more = f" and {len(near) - MOST} more" if len(near) > MOST else ""
    hint = f"; did you mean {', '.join(near[:MOST])}{more}?" if near else meant(id, ids)
    hint = hint or "; `dplangevin claims --verdict ...` lists their ids"
    require(id in ids, f"no claim {id!r}{hint}")
    return ids[id]


def with_value(rows: Sequence[tally.Claim], value: str, *columns: str) -> list[tally.Claim]:
    """Return the rows with this value, or with the only value that begins so, in one of the columns."""
    known = sorted({row[column] for row in rows for column in columns} - {""})
    near = [value] if value in known else [each for each in known if each.startswith(value)]
    there = f"{meant(value, known)}; there are {', '.join(known)}"
    require(len(near) == 1, f"--{columns[0]} {value!r}: no such claim{there}")
    return [row for row in rows if near[0] in [row[column] for column in columns]]


def whole(claim: tally.Claim, everything: Sequence[tally.Claim], folder: Path) -> None:
    """Print one claim with its quotation, our result, the reason and the files."""
    import pandas as pd  # here, since `--help` needs none

    from dplangevin.papers.claims.sentences import sentence

    numbers = {name: float(claim[name] or "nan") for name in NUMBERS}
    same = [other["id"] for other in everything if other["fact"] == claim["fact"] and other is not claim]
    output.line(claim["title"], "bold")
    output.line(tally.word(claim), "bold")
    output.line()
    for label, text in (
        ("id", claim["id"]),
        ("place", f"{claim['paper']}, {claim['where']}"),
        ("quotation", f'"{claim["statement"]}"'),
        ("read as", claim["published"]),
        ("kind", f"{claim['kind']}, of the {KINDS[claim['kind']]}"),
        ("setting", claim["setting"]),
        ("result", sentence(pd.Series({**claim, **numbers}))),
        ("reason", claim["reason"]),
        ("same fact", ", ".join(same)),
        ("shown in", ", ".join(f"{folder / EXHIBITS / name}/" for name in tally.shown_by(claim))),
        ("evidence", claim["evidence"].replace("; ", ", ")),
        ("page", f"{folder}/report/{claim['paper']}.md#{claim['id']}"),
    ):
        if text:
            output.line(f"{label:<{LABEL}}{text}", indent=LABEL)


def summary(kind: str, rows: Sequence[tally.Claim]) -> None:
    """Print the verdicts on the claims of one kind: those of each paper, all, and the distinct facts behind them."""
    papers, name = [*dict.fromkeys(row["paper"] for row in rows)], KINDS[kind]
    output.line(f"{name[0].upper()}{name[1:]}", "bold")
    titles = (*papers, "all", "facts")
    columns = [output.Column("verdict", whole=True), *(output.Column(each, number=True) for each in titles)]
    lines = []
    for verdict in (*tally.ordered(row["verdict"] for row in rows), "all"):
        own = [row for row in rows if verdict in (row["verdict"], "all")]
        counts = Counter(row["paper"] for row in own)
        facts = len({row["fact"] for row in own})
        lines.append([verdict, *map(str, (*(counts[paper] for paper in papers), len(own), facts))])
    output.table(columns, lines)
    output.line()


def exhibits() -> None:
    """List every figure and table: its title, its name, and the verdicts on its claims."""
    from dplangevin.data.yaml_file import values

    folder = in_results(EXHIBITS)
    claims = tally.read(folder.parent / CLAIMS)
    for text in (*tally.LEGEND, ""):
        output.line(text)
    for path in sorted((folder.parent.parent / "conf/exhibit").glob("*.yaml")):
        content = values(path)
        output.line(str(content.get("title") or ""), "bold", indent=2)
        state = tally.marks(claim for claim in claims if path.stem in tally.shown_by(claim))
        if not any((folder / path.stem).glob("*")):
            state = f"not made: `make exhibit ID={path.stem} SET=pipeline=svhn`"
        output.line(f"  {path.stem}  {state}".rstrip(), indent=4)
    output.line()
    output.line(f"Files: {folder}/<name>/")


def in_results(name: str) -> Path:
    """Return the path of `name` in results/, here or in a folder above."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (path := folder / "results" / name).exists():
            return path.relative_to(here) if path.is_relative_to(here) else path
    raise FileNotFoundError(
        f"no {name} in results/ in {here} and the folders above it: run this in a checkout of the project"
    )


def experiments() -> None:
    """List the runs of `dvc exp`: the changed settings, the accuracy and the proven epsilon."""
    from dplangevin.pipeline.config import flatten

    shown = [(of.get("data"), each) for of in exp_show() for each in of.get("experiments") or ()]
    if not shown:
        example = "dvc exp run -n radius3 -S method.ops.radius=3 run@compare-abalone"
        output.line(f"No experiments yet: run one, such as `{example}`.")
    for before, each in shown:
        revision = each["revs"][0]
        data = revision["data"] or {}
        when = str(data.get("timestamp") or "").replace("T", " ")[:16]
        output.line(f"{each.get('name') or revision['rev'][:7]}  {when}".rstrip(), "bold")
        known, after = (flatten(_of(of, "params", "params.yaml")) for of in (before, data))
        changed = _direct({key: value for key, value in after.items() if known.get(key) != value})
        texts = ", ".join(f"{key}={value}" for key, value in changed.items()) or "nothing"
        ended = "failed" if revision.get("error") else "no method's numbers changed: see `dvc exp diff`"
        state = (each.get("executor") or {}).get("state") or ended
        for text in (f"changed: {texts}", *([*_outcomes(before, data)] or [state])):
            output.line(f"  {text}", indent=4)
        output.line()


def exp_show() -> list[dict[str, Any]]:
    """Return what `dvc exp show --json` prints, or raise an error with DVC's own message."""
    if shutil.which("dvc") is None:
        raise FileNotFoundError(
            "the command dvc is not on PATH: pip install '.[pipeline]', or activate the environment that has it"
        )
    done = subprocess.run(["dvc", "exp", "show", "--json"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
    require(
        not done.returncode, f"`dvc exp show` failed in {Path.cwd()}: {lines[-1].removeprefix('ERROR: ')}"
    )
    shown: list[dict[str, Any]] = json.loads(done.stdout)
    return shown


def _direct(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes without those by interpolation: of one last name and value, the key nearest to the top."""
    direct: dict[tuple[str, str], str] = {}
    for key in sorted(changed, key=lambda key: key.count(".")):
        direct.setdefault((key.rpartition(".")[2], repr(changed[key])), key)
    return {key: changed[key] for key in direct.values()}


def _of(data: Mapping[str, Any] | None, kind: str, path: str) -> dict[str, Any]:
    return (((data or {}).get(kind) or {}).get(path) or {}).get("data") or {}


def _outcomes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Iterator[str]:
    """Yield accuracy and proven ε of every method whose numbers differ from those of the commit, in words."""
    for path in after.get("metrics") or {}:
        known = _of(before, "metrics", path)
        for method, budgets in _of(after, "metrics", path).items():
            if budgets == known.get(method):
                continue
            where = f"{method} on {Path(path).stem}: accuracy"
            if "accuracy" in budgets:  # a method without a price has it alone, see pipelines/run.py
                yield f"{where} {budgets['accuracy']:.3f}, without a proven epsilon"
                continue
            numbers = sorted((float(key.removeprefix("at_")), of) for key, of in budgets.items())
            accuracy = " ".join(f"{of.get('accuracy', math.nan):.3f}" for _, of in numbers)
            prices = " ".join(at_most(of.get("epsilon_proven", math.nan)) for _, of in numbers)
            asked = " ".join(short(epsilon) for epsilon, _ in numbers)
            yield f"{where} {accuracy}, at epsilon {asked}; proven epsilon {prices}"
