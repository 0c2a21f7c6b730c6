"""The report as Markdown: findings and counts, the claims of each paper, and the gallery of exhibits.

A claim has the heading of its id, so that ``wang2015.md#wang2015_theorem4`` is its address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.sentences import capital, sentence, tidy
from dplangevin.papers.exhibits import tables
from dplangevin.papers.report.findings import LABELS, TEXTS, filled
from dplangevin.pipeline.config import content
from dplangevin.pipeline.environment import largest
from dplangevin.reporting import read
from dplangevin.text import distinct, short

RESULTS = Path("results")
SUPPLEMENT = (10,)  # the place of what has no other
NUMBERED = re.compile(
    r"((?:Theorem|Lemma|Proposition|Corollary|Algorithm|Figure|Table|Remark|eq\.)s? [\d.]*\d(?: and [\d.]*\d)?)"
)


def pages(cfg: DictConfig) -> dict[str, bytes]:
    """Return the bytes of every page, by its name."""
    blank = dict.fromkeys(("cause", "exhibit", "evidence"), "")
    table = read.read_claims(RESULTS / "claims.csv").fillna(blank)
    made = [str(name) for name in cfg.pipeline.exhibits if (RESULTS / "exhibits" / str(name)).is_dir()]
    texts = {"README.md": start(cfg, table), "exhibits.md": exhibits(cfg, table, made)}
    by_id, said = table.set_index("id", drop=False), content("report", "statements", cfg)
    known = content("report", "papers", cfg)["papers"]
    for paper in map(str, table.paper.unique()):
        in_short = {name: filled(text, by_id) for name, text in said[paper].items()}
        texts[f"{paper}.md"] = claims(known[paper], table[table.paper.eq(paper)], in_short, made)
    return {name: ("\n".join(lines).rstrip() + "\n").encode() for name, lines in texts.items()}


def plain(text: object) -> str:
    """Return a text on one line, in which no character has a meaning in Markdown."""
    return re.sub(r"([\\*<`\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", tidy(str(text)))


def link(claim: Any, text: str) -> str:
    """Return a link to a claim."""
    return f"[{plain(text)}]({claim['paper']}.md#{claim['id']})"


def start(cfg: DictConfig, table: pd.DataFrame) -> list[str]:
    """Return the first page: findings, counts, what fails, and how the results were made."""
    by_id = table.set_index("id", drop=False)
    texts = content("report", "papers", cfg)
    cited = {paper: of["cited"] for paper, of in texts["papers"].items()}
    papers = ", ".join(f"[{name}]({paper}.md)" for paper, name in cited.items())
    lines = [texts["head"].format(papers=papers), "## Findings", ""]
    for entry in content("report", "findings", cfg)["findings"].values():
        text = {part: filled(entry[part], by_id) for part in TEXTS}
        if not all(text.values()) or not {*entry["claims"]} <= {*by_id.index}:
            continue
        lines += [f"### {plain(text['title'])}", ""]
        lines += [f"* **{label}:** {text[part]}" for part, label in LABELS.items()]
        behind = "; ".join(link(by_id.loc[name], by_id.title[name]) for name in entry["claims"])
        lines += ["", text["why"], "", f"[Figure](exhibits.md#{entry['exhibit']}). Claims: {behind}.", ""]
    head = ["claims", *verdicts.WORDS, "all"]
    lines += ["## Counts", "", *tables.table(head, counts(table, cited), left=1), ""]
    lines += ["Second words of the claims in the papers' words:", "", *causes(table), "", "## What fails", ""]
    fails = table[table.verdict.eq(verdicts.FAILS) & table.kind.ne("extension")]
    fails = fails.assign(statement_of=fails["where"].map(statement))
    for _, group in fails.groupby("fact", sort=False):  # under the title of the first claim
        rows = group.drop_duplicates(["paper", "statement_of"]).to_dict("records")
        where = "; ".join(link(row, f"{cited[row['paper']]}, {row['statement_of']}") for row in rows)
        lines.append(f"* {plain(group.title.iloc[0])}: {where}")
    lists = [*RESULTS.glob("runs/*/*/runs.units.json"), *RESULTS.glob("analyses/*.units.json")]
    said = [entry.get("renewed", "") for path in lists for entry in json.loads(path.read_bytes())]
    move = short(max(map(largest, said), default=0.0))
    made = texts["made"].format(tasks=len(said), computed=said.count(""), move=move)
    return [*lines, "", "## How these results were made", "", made]


def counts(table: pd.DataFrame, cited: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield a label and the number of claims with each verdict, and of all, by kind and paper."""
    own = table[table.kind.eq("paper")]
    groups = [("In the papers' words", own)]
    groups += [(cited[paper], own[own.paper.eq(paper)]) for paper in own.paper.unique()]
    groups += [("Read by us: sizes left open", table[table.kind.eq("reading")])]
    groups += [("Questions of ours", table[table.kind.eq("extension")])]
    for name, rows in groups:
        found = rows.verdict.value_counts()
        yield [name, *(str(found.get(word, 0)) for word in verdicts.WORDS), str(len(rows))]


def causes(table: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each verdict that counts the second words of the papers' own claims."""
    rows = table[table.kind.eq("paper")]
    for verdict, names in verdicts.CAUSES.items():
        found = rows.cause[rows.verdict.eq(verdict)].value_counts()
        if known := [f"{cause} {found[cause]}" for cause in names if cause in found]:
            yield f"* {verdict}: {', '.join(known)}."


def claims(
    paper: Mapping[str, Any], table: pd.DataFrame, said: Mapping[str, str], made: Sequence[str]
) -> list[str]:
    """Return the page of one paper's claims by statement, in its order; `said` has the statements in short."""
    groups = [(str(name), rows) for name, rows in table.groupby(table["where"].map(statement), sort=False)]
    groups.sort(key=lambda group: place(paper["places"], *group))
    index = ", ".join(f"[{plain(name)}](#{slug(name)})" for name, _ in groups)
    words = "[The words of a verdict](../../docs/verdicts.md)"
    lines = [f"# {paper['title']}", "", f"{len(table)} claims. {words}. Statements: {index}.", ""]
    for name, rows in groups:
        lines += [f"## {plain(name)}", "", *([said[name], ""] if said.get(name) else [])]
        for word in verdicts.WORDS if len(rows) > 1 else ():
            titles = [f"[{plain(row.title)}](#{row.id})" for row in rows.itertuples() if row.verdict == word]
            lines += [f"* {tally.MARKS[word]} {word}: {'; '.join(titles)}."] if titles else []
        lines.append("")
        for _, row in rows.iterrows():
            lines += claim(row, made)
    return lines


def statement(where: str) -> str:
    """Return the numbered statement that a place in a paper is about, such as "Theorem 4", or else the place."""
    found = NUMBERED.search(where)
    return found[1] if found else where


def slug(heading: str) -> str:
    """Return the address of a heading on its page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def place(places: Mapping[str, Sequence[int]], name: str, rows: pd.DataFrame) -> tuple[int, ...]:
    """Return the first section that a statement's claims name, else that of `places`, as a sort key."""
    named = re.findall(r"^Section (\d+(?:\.\d+)?)", "\n".join(rows["where"]), re.MULTILINE)
    known = [tuple(at) for start, at in places.items() if name.startswith(start)]
    return min([*(tuple(map(int, at.split("."))) for at in named), *known], default=SUPPLEMENT)


def claim(row: pd.Series, made: Sequence[str]) -> list[str]:
    """Return the entry of one claim: quotation, verdict, result, test, reason, and how to compute it again."""
    shown, evidence = (distinct([row[column]]) for column in ("exhibit", "evidence"))
    absent = "{} (not made here)".format
    figures = [f"[{name}](exhibits.md#{name})" if name in made else absent(name) for name in shown]
    files = [f"[{path}](../../{path})" if Path(path).exists() else absent(path) for path in evidence]
    again = ", ".join(f"`{command}`" for command in commands(shown, evidence, made))
    cause = f"{capital(row.cause)}. " if row.cause else ""
    parts = [
        f"> {plain(row.statement)} ({plain(row['where'])})",
        f"**{tally.MARKS[row.verdict]} {row.verdict}** — {plain(row.title)}. {plain(sentence(row))}.",
        f"{cause}*Tested* ({row.kind}, {row.setting}): {plain(row.published)}.",
        f"*Why:* {plain(capital(tidy(row.reason)))}.",
        f"*Evidence:* {'; '.join(filter(None, [', '.join(figures), ', '.join(files), again]))}.",
    ]
    return [f"### {row.id}", "", *(line for part in parts for line in (part, ""))]


def commands(exhibits: Sequence[str], evidence: Sequence[str], made: Sequence[str]) -> list[str]:
    """Return the commands that compute the numbers behind a claim again; evidence counts only without exhibits."""
    if exhibits:
        return [f"make exhibit ID={n} FORCE=1{' SET=pipeline=svhn' * (n not in made)}" for n in exhibits]
    stems = [PurePosixPath(path).stem for path in evidence if path.startswith("data/manifest/dataset/")]
    return [*(f"dvc repro -f prepare@{stem}" for stem in stems), "dvc repro -f claims"]


def exhibits(cfg: DictConfig, table: pd.DataFrame, made: Sequence[str]) -> list[str]:
    """Return the gallery: title, figure, finding, files and claims of each exhibit, and what its paper leaves open."""
    by_id, lines = table.set_index("id", drop=False), ["# Exhibits", ""]
    papers = content("report", "papers", cfg)["papers"]
    for group, entries in content("report", "exhibits", cfg)["groups"].items():
        lines += [f"## {papers[group]['title'] if group in papers else 'All three papers'}", ""]
        for name, text in entries.items():
            if name not in cfg.pipeline.exhibits:
                continue
            title = plain(content("exhibit", name, cfg)["title"])
            lines += [f"### {name}", "", f"**{title}**" + (f" ({text['of']})" if text["of"] else ""), ""]
            folder = RESULTS / "exhibits" / name
            if name in made:
                lines += [f"[![{title}](../exhibits/{name}/{name}.png)](../exhibits/{name}/{name}.png)", ""]
                files = sorted(path.name for path in folder.iterdir() if path.name != f"{name}.png")
                lines += [", ".join(f"[{file}](../exhibits/{name}/{file})" for file in files), ""]
            lines += [f"{filled(text['finding'], by_id)} {text['open']}".strip(), ""]
            own = [row for _, row in table.iterrows() if name in row.exhibit.split("; ")]
            shown = "; ".join(f"{link(row, row.title)} {tally.MARKS[row.verdict]}" for row in own)
            again = f"Again: `{commands([name], [], made)[0]}`."
            lines += [f"Claims: {shown}. {again}" if shown else again, ""]
    return lines
