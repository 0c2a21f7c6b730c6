"""The commands `dplangevin claims` and `exhibits`, which show the contents of a checkout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dplangevin.checks import require
from dplangevin.cli import output
from dplangevin.cli.options import option
from dplangevin.papers.claims import tally
from dplangevin.text import meant

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
        summary(KINDS[kind], own)
    output.line("The column facts counts distinct facts: several claims can restate one.")
    for kind, own in by_kind.items():
        for word in tally.ordered(row["verdict"] for row in own):
            if verdict is not None or (word == "fails" and kind != "extension"):
                output.title(f"{word.capitalize()}, of {KINDS[kind]}:")
                for row in (row for row in own if row["verdict"] == word):
                    output.line(row["title"], indent=2)
                    output.line(f"  {row['id']}")
    more = "" if verdict is not None else " --verdict lists other claims."
    output.line()
    output.line(f"To see one claim whole: dplangevin claims ID.{more}")


def claim_named(rows: Sequence[tally.Claim], id: str) -> tally.Claim:
    """Return the claim with an id; raise ValueError with similar ids if there is none."""
    ids = {row["id"]: row for row in rows}
    plain = id.lower().replace("_", "").replace(" ", "")
    near = [each for each in ids if plain in each.replace("_", "")]
    more = f" and {len(near) - MOST} more" if len(near) > MOST else ""
    hint = f"; did you mean {', '.join(near[:MOST])}{more}?" if near else meant(id, ids)
    require(id in ids, f"no claim {id!r}{hint or '; `dplangevin claims --verdict ...` lists their ids'}")
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
    for text in (claim["title"], tally.word(claim), ""):
        output.line(text, "bold")
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


def summary(name: str, rows: Sequence[tally.Claim]) -> None:
    """Print the verdicts on the claims of one kind: those of each paper, all, and the distinct facts behind them."""
    papers = [*dict.fromkeys(row["paper"] for row in rows)]
    lines = []
    for verdict in (*tally.ordered(row["verdict"] for row in rows), "all"):
        own = [row for row in rows if verdict in (row["verdict"], "all")]
        counts = Counter(row["paper"] for row in own)
        facts = len({row["fact"] for row in own})
        lines.append([verdict, *map(str, (*(counts[paper] for paper in papers), len(own), facts))])
    titles = [output.Column(each, number=True) for each in (*papers, "all", "facts")]
    output.line(f"{name[0].upper()}{name[1:]}", "bold")
    output.table([output.Column("verdict", whole=True), *titles], lines)
    output.line()


def exhibits() -> None:
    """List every figure and table: its title, its name, and the verdicts on its claims."""
    from dplangevin.data.yaml_file import values

    folder = in_results(EXHIBITS)
    claims = tally.read(folder.parent / CLAIMS)
    for text in (*tally.LEGEND, ""):
        output.line(text)
    for path in sorted((folder.parent.parent / "conf/exhibit").glob("*.yaml")):
        output.line(str(values(path).get("title") or ""), "bold", indent=2)
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
