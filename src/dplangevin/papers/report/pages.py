"""The report as Markdown: findings and counts, the claims of each paper, and the gallery of exhibits.

The bytes of the pages follow from the results and the texts of `conf/report` alone. A claim has the heading of its id,
so that ``wang2015.md#wang2015_theorem4`` is its address, on a forge and on the site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.sentences import capital, sentence, tidy
from dplangevin.papers.exhibits import tables
from dplangevin.papers.report.findings import LABELS, TEXTS, filled, known
from dplangevin.pipeline.config import content
from dplangevin.pipeline.environment import largest
from dplangevin.reporting import read
from dplangevin.reporting.words import PAPERS
from dplangevin.text import distinct, short

RESULTS = Path("results")
TITLES = {
    "wang2015": "Wang, Fienberg and Smola, Privacy for Free, ICML 2015",
    "li2019": "Li, Chen, Liu and Carin, On Connecting Stochastic Gradient MCMC and Differential Privacy, AISTATS 2019",
    "ryffel2022": "Ryffel, Bach and Pointcheval, Differential Privacy Guarantees for SGLD, 2022",
}
# The section of each numbered statement, which orders the page. A place that begins with "Section" needs no entry.
PLACES: dict[str, dict[str, tuple[float, ...]]] = {
    "wang2015": {
        "Abstract": (0,), "Algorithm 1": (3, 0), "Theorem 1": (3, 1), "Proposition 1": (3, 2), "Proposition 2": (3, 2),
        "Proposition 3": (3, 3), "Algorithm 3": (4, 1), "Theorem 4": (4, 1), "Figure 1": (5,),
        "Supplement A": (10, 1), "Supplement B": (10, 2), "Supplement, Proposition 4": (10, 2),
        "Supplement, Section B": (10, 2), "Supplement C": (10, 3), "Supplement, Lemma 5": (10, 3),
        "Supplement, Theorem 5": (10, 3), "Supplement D": (10, 4), "Supplement, Section D": (10, 4),
        "Supplement, Figure 2": (10, 4), "Supplement E": (10, 5),
    },
    "li2019": {
        "Lemma 2": (2, 2), "Remark 1": (2, 2), "Algorithm 1": (2, 3), "Theorem": (3, 1), "Remark 2": (3, 1),
        "Proposition": (3, 2), "Table 1": (4, 3), "Supplement": (10,),
    },
    "ryffel2022": {
        "Abstract": (0,), "Lemma 3.3": (3, 3), "Theorem 3.1": (3, 3), "Corollary 3.3": (3, 3), "Lemma 4.1": (4, 1),
        "Table": (5, 2), "Appendix": (10,),
    },
}  # fmt: skip
COUNTED = (
    (verdicts.HOLDS, ""),
    (verdicts.HOLDS, verdicts.DERIVED),
    (verdicts.IN_PART, ""),
    (verdicts.FAILS, ""),
    *((verdicts.OPEN, cause) for cause in verdicts.CAUSES[verdicts.OPEN]),
)
HEAD = """\
# What three papers say, and what we found

We tested each sentence of three papers that makes a claim: {papers}. All figures and tables are in
[exhibits](exhibits.md), all numbers in [claims.csv](../claims.csv), the rules in [verdicts](../../docs/verdicts.md).
"""
MADE = """\
Results consist of {tasks} tasks. The present code computed {computed} of them. The code of {renewed} has changed since
they were computed.{compared}{unchecked} `*.units.json` beside each result has date, commit, processor, libraries and
threads of each task. A second run on the same kind of processor gives the same bytes."""
FAILING = (
    "Several claims that fail can state one fact. Each line is a fact, under the title of its first claim."
)
COMPARED = """ For {compared} of these, tasks of the same result were computed again: none of their numbers moved by
more than {move} (in standard errors over the seeds, or shares of the value)."""
UNCHECKED = " In {unchecked} of these, no task of the result was computed again, so their numbers may move."


def pages(cfg: DictConfig) -> dict[str, bytes]:
    """Return the bytes of every page, by its name."""
    table = read.read_claims(RESULTS / "claims.csv").fillna(
        dict.fromkeys(("cause", "exhibit", "evidence"), "")
    )
    made = [str(name) for name in cfg.pipeline.exhibits if (RESULTS / "exhibits" / str(name)).is_dir()]
    texts = {"README.md": start(cfg, table), "exhibits.md": exhibits(cfg, table, made)}
    texts |= {
        f"{paper}.md": claims(str(paper), rows, made) for paper, rows in table.groupby("paper", sort=False)
    }
    return {name: ("\n".join(lines).rstrip() + "\n").encode() for name, lines in texts.items()}


def plain(text: object) -> str:
    """Return a text on one line, in which no character has a meaning in Markdown."""
    return re.sub(r"([\\*<`\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", tidy(str(text)))


def link(claim: Any, text: str) -> str:
    """Return a link to a claim."""
    return f"[{plain(text)}]({claim['paper']}.md#{claim['id']})"


# Findings and counts


def start(cfg: DictConfig, table: pd.DataFrame) -> list[str]:
    """Return the first page: findings, counts, what fails, and how the results were made."""
    by_id = table.set_index("id", drop=False)
    lines = [
        HEAD.format(papers=", ".join(f"[{PAPERS[paper]}]({paper}.md)" for paper in TITLES)),
        "## Findings",
        "",
    ]
    for entry in content("report", "findings", cfg)["findings"].values():
        if known(entry, by_id):
            text = {part: filled(entry[part], by_id) for part in TEXTS}
            lines += [f"### {plain(text['title'])}", ""]
            lines += [f"* **{label}:** {text[part]}" for part, label in LABELS.items()]
            behind = "; ".join(link(by_id.loc[name], by_id.title[name]) for name in entry["claims"])
            lines += ["", text["why"], "", f"[Figure](exhibits.md#{entry['exhibit']}). Claims: {behind}.", ""]
    columns = ["claims", *(tally.word({"verdict": v, "cause": c}) for v, c in COUNTED), "all"]
    rows = ([label, *map(str, numbers)] for label, numbers in counts(table))
    lines += ["## Counts", "", *tables.table(columns, rows, left=1), ""]
    ours = ", ".join(f"{count} {verdict}" for verdict, count in questions(table))
    lines += [
        f"We also asked questions that the papers do not ask: {ours}.",
        "",
        "## What fails",
        "",
        FAILING,
        "",
    ]
    for fact, group in failed(table):
        where = "; ".join(link(row, f"{PAPERS[row['paper']]}, {row['where']}") for _, row in group.iterrows())
        lines.append(f"* {plain(fact)}: {where}")
    stated = [*RESULTS.glob("runs/*/*/runs.units.json"), *RESULTS.glob("analyses/*.units.json")]
    return [*lines, "", "## How these results were made", "", provenance(stated)]


def counts(table: pd.DataFrame) -> list[tuple[str, list[int]]]:
    """Return lines that count the papers' claims: a label, the number for each of COUNTED, and the number of all.

    A verdict without a second word counts all of its claims, those of a second word of its own left out. One line is
    for claims in the papers' words and one for our readings of them; a line for each paper follows each.
    """
    own, lines = table[~table.kind.eq("extension")], []
    pairs = own.apply(
        lambda row: (row.verdict, row.cause if (row.verdict, row.cause) in COUNTED else ""), axis=1
    )
    for kind, name in (("paper", "In the papers' words"), ("reading", "Read by us: sizes left open")):
        part = own[own.kind.eq(kind)]
        for label, rows in ((name, part), *part.groupby("paper", sort=False)):
            found = [*pairs[rows.index]]
            lines.append((PAPERS.get(label, label), [*(found.count(pair) for pair in COUNTED), len(rows)]))
    return lines


def questions(table: pd.DataFrame) -> list[tuple[str, int]]:
    """Return how many of our own questions (kind "extension") have each verdict."""
    found = table[table.kind.eq("extension")].verdict.value_counts()
    return [(verdict, int(found[verdict])) for verdict in verdicts.WORDS if verdict in found]


def failed(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return each fact behind the claims that fail, under the title of its first claim, with its claims."""
    rows = table[table.verdict.eq(verdicts.FAILS) & table.kind.ne("extension")]
    return [(str(group.title.iloc[0]), group) for _, group in rows.groupby("fact", sort=False)]


def provenance(lists: Iterable[Path]) -> str:
    """Return how many tasks the present code computed, and by how much those of earlier code moved at most."""
    said = [entry.get("renewed", "") for path in lists for entry in json.loads(path.read_bytes())]
    renewed = [text for text in said if text]
    moves = [largest(text) for text in renewed if not re.search(r"\b0 of \d+ tasks", text)]
    numbers = {"tasks": len(said), "computed": len(said) - len(renewed), "renewed": len(renewed)}
    numbers |= {"compared": len(moves), "unchecked": len(renewed) - len(moves)}
    more = {name: f"{number:,}" for name, number in numbers.items()}
    more["move"] = short(max(moves, default=0.0))
    compared = COMPARED.format(**more) if moves else ""
    unchecked = UNCHECKED.format(**more) if len(renewed) > len(moves) else ""
    return MADE.format(**more | {"compared": compared, "unchecked": unchecked})


# Claims


def claims(paper: str, table: pd.DataFrame, made: Sequence[str]) -> list[str]:
    """Return the page of the claims of one paper, in its order."""
    lines = [f"# {TITLES.get(paper, paper)}", ""]
    lines += [f"{len(table)} claims. [The words of a verdict](../../docs/verdicts.md).", ""]
    for where in sorted(table["where"].unique(), key=lambda where: place(paper, where)):
        lines += [f"## {plain(where)}", ""]
        for statement, rows in table[table["where"].eq(where)].groupby("statement", sort=False):
            lines += [f"> {plain(statement)}", ""]
            for _, row in rows.iterrows():
                lines += claim(row, made)
    return lines


def claim(row: pd.Series, made: Sequence[str]) -> list[str]:
    """Return the entry of one claim: verdict, result, what was tested, why, and how to compute it again."""
    shown, evidence = (distinct([row[column]]) for column in ("exhibit", "evidence"))
    absent = "{} (not made here)".format
    figures = [f"[{name}](exhibits.md#{name})" if name in made else absent(name) for name in shown]
    files = [f"[{path}](../../{path})" if Path(path).exists() else absent(path) for path in evidence]
    word = tally.word({"verdict": row.verdict, "cause": row.cause})
    again = ", ".join(f"`{command}`" for command in commands(shown, evidence, made))
    parts = [
        f"**{tally.MARKS[row.verdict]} {word}** — {plain(row.title)}. {plain(sentence(row))}.",
        f"*Tested* ({row.kind}, {row.setting}): {plain(row.published)}.",
        f"*Why:* {plain(capital(tidy(row.reason)))}.",
        f"*Evidence:* {'; '.join(filter(None, [', '.join(figures), ', '.join(files), again]))}.",
    ]
    return [f"### {row.id}", "", *(line for part in parts for line in (part, ""))]


def commands(exhibits: Sequence[str], evidence: Sequence[str], made: Sequence[str]) -> list[str]:
    """Return the commands that compute the numbers behind a claim again; evidence counts only without exhibits."""
    if exhibits:
        more = {name: "" if name in made else " SET=pipeline=svhn" for name in exhibits}
        return [f"make exhibit ID={name} FORCE=1{setting}" for name, setting in more.items()]
    stems = [PurePosixPath(path).stem for path in evidence if path.startswith("data/manifest/dataset/")]
    return [*(f"dvc repro -f prepare@{stem}" for stem in stems), "dvc repro -f claims"]


def place(paper: str, where: str) -> tuple[float, ...]:
    """Return the section of a sentence as a sort key; unknown places come last."""
    if found := re.match(r"Section (\d+)(?:\.(\d+))?", where):
        return tuple(float(part) for part in found.groups() if part)
    known = PLACES.get(paper, {})
    starts = [start for start in known if where.startswith(start)]
    return known[max(starts, key=len)] if starts else (99.0,)


# Exhibits


def exhibits(cfg: DictConfig, table: pd.DataFrame, made: Sequence[str]) -> list[str]:
    """Return the gallery: title, figure, finding, files and claims of each exhibit, and what its paper leaves open."""
    by_id, lines = table.set_index("id", drop=False), ["# Exhibits", ""]
    for group, entries in content("report", "exhibits", cfg)["groups"].items():
        lines += [f"## {TITLES.get(group, 'All three papers')}", ""]
        for name, text in entries.items():
            if name not in cfg.pipeline.exhibits:
                continue
            title = plain(content("exhibit", name, cfg)["title"])
            lines += [f"### {name}", "", f"**{title}**" + (f" ({text['of']})" if text["of"] else ""), ""]
            try:
                finding = filled(text["finding"], by_id)
            except KeyError:
                finding = ""
            folder = RESULTS / "exhibits" / name
            if name in made:
                lines += [f"[![{title}](../exhibits/{name}/{name}.png)](../exhibits/{name}/{name}.png)", ""]
                files = sorted(path.name for path in folder.iterdir() if path.name != f"{name}.png")
                lines += [", ".join(f"[{file}](../exhibits/{name}/{file})" for file in files), ""]
            lines += [" ".join(filter(None, [finding, text["open"]])), ""]
            own = [row for _, row in table.iterrows() if name in row.exhibit.split("; ")]
            shown = "; ".join(f"{link(row, row.title)} {tally.MARKS[row.verdict]}" for row in own)
            again = f"`{commands([name], [], made)[0]}`"
            lines += [" ".join(filter(None, [shown and f"Claims: {shown}.", f"Again: {again}."])), ""]
    return lines
