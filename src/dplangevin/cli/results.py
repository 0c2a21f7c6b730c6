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


def claims(
    id: Annotated[str | None, typer.Argument(help="Show all of this claim.", show_default=False)] = None,
    paper: Annotated[str | None, option("wang2015, li2019 or ryffel2022.", show_default=False)] = None,
    verdict: Annotated[str | None, option("A verdict or its cause.", show_default=False)] = None,
) -> None:
    """Count the verdicts on the papers' claims, list what fails, or show one claim."""
    path = in_results(CLAIMS)
    rows = tally.read(path)
    if id is not None:
        (row,) = with_value(rows, id, "id")
        whole(row, rows, path.parent)
        return
    if paper is not None:
        rows = with_value(rows, paper, "paper")
    if verdict is not None:
        rows = with_value(rows, verdict, "verdict", "cause")
    for kind, name in KINDS.items():
        own = [row for row in rows if row["kind"] == kind]
        if own:
            summary(name, own)
        for row in own:
            if verdict is not None or (row["verdict"] == "fails" and kind != "extension"):
                output.line(row["title"], indent=2)
                output.line(f"  {row['id']}: {row['verdict']}")
    output.line()
    output.line("Claims can restate one fact. To see one claim whole: dplangevin claims ID.")


def with_value(rows: Sequence[tally.Claim], value: str, *columns: str) -> list[tally.Claim]:
    """Return the rows with this value in one of the columns; raise ValueError if there is none."""
    known = {row[column] for row in rows for column in columns} - {""}
    there = f"; there are {', '.join(sorted(known))}" if columns != ("id",) else ""
    require(value in known, f"no claim with {columns[0]} {value!r}{meant(value, known)}{there}")
    return [row for row in rows if value in [row[column] for column in columns]]


def whole(claim: tally.Claim, everything: Sequence[tally.Claim], folder: Path) -> None:
    """Print one claim with its quotation, our result, the reason and the files."""
    import pandas as pd  # here, since `--help` needs none

    from dplangevin.papers.claims.sentences import sentence

    numbers = {name: float(claim[name] or "nan") for name in NUMBERS}
    same = [other["id"] for other in everything if other["fact"] == claim["fact"] and other is not claim]
    page = f"{folder}/report/{claim['paper']}.md#{claim['id']}"
    said = {"result": sentence(pd.Series({**claim, **numbers})), "same fact": ", ".join(same), "page": page}
    output.line(claim["title"], bold=True)
    output.line(tally.word(claim), bold=True)
    for label, text in {**claim, **said}.items():
        if text and label not in NUMBERS:
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
    output.title(f"{name[0].upper()}{name[1:]}")
    output.table(["verdict", *papers, "all", "facts"], lines)


def exhibits() -> None:
    """List every figure and table: its title, its name, and the verdicts on its claims."""
    from dplangevin.data.yaml_file import values

    folder = in_results(EXHIBITS)
    claims = tally.read(folder.parent / CLAIMS)
    for text in (*tally.LEGEND, ""):
        output.line(text)
    for path in sorted((folder.parent.parent / "conf/exhibit").glob("*.yaml")):
        output.line(str(values(path).get("title") or ""), bold=True, indent=2)
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
    raise FileNotFoundError(f"no {name} in results/ in {here} and the folders above it: use a checkout")
