"""The commands `dplangevin claims`, `exhibits` and `experiments`, which show the contents of a checkout."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dplangevin.cli import output
from dplangevin.cli.options import option
from dplangevin.papers.claims import tally
from dplangevin.papers.claims.words import at_most
from dplangevin.text import meant, short

CLAIMS, EXHIBITS = "claims.csv", "exhibits"
KINDS = {  # the column `kind` of claims.csv
    "paper": "claims in the papers' own words",
    "reading": 'claims without a size, such as "slightly"; we chose the size',
    "extension": "questions of ours, which the papers do not ask",
}
NUMBERS = "ours", "low", "high", "asked_low", "asked_high"
LABEL = 12  # columns of the labels of one claim
SHOWN = 3  # changed methods shown for each experiment, without --all

Json = Annotated[bool, option("Print one JSON document.", "--json")]
Results = Annotated[
    Path | None,
    option("Folder of the results (default: results/ here or in a folder above).", show_default=False),
]


def claims(
    id: Annotated[
        str | None,
        typer.Argument(help="A claim, such as wang2015_lemma5: show all of it.", show_default=False),
    ] = None,
    paper: Annotated[
        str | None, option("Only this paper: wang2015, li2019 or ryffel2022.", show_default=False)
    ] = None,
    verdict: Annotated[
        str | None,
        option('Only this verdict or its cause, such as fails or "not testable".', show_default=False),
    ] = None,
    kind: Annotated[
        str | None,
        option(
            f"Only this kind. {'; '.join(f'{name}: {words}' for name, words in KINDS.items())}.",
            show_default=False,
        ),
    ] = None,
    exhibit: Annotated[
        str | None, option("Only claims that this exhibit shows, such as wang2015_fig1c.", show_default=False)
    ] = None,
    results: Results = None,
    json: Json = False,
) -> None:
    """Count the verdicts on the papers' claims, list what fails, or show one claim."""
    path = in_results(results, CLAIMS)
    rows = everything = tally.read(path)
    for name, value in (("paper", paper), ("kind", kind), ("verdict", verdict), ("exhibit", exhibit)):
        if value is not None:
            rows = with_value(rows, name, value)
    if id is not None:
        rows = [row for row in rows if row["id"] == id]
        if not rows:
            near = meant(id, [row["id"] for row in everything])
            near = near or "; `dplangevin claims --verdict ...` lists their ids"
            raise ValueError(f"no claim {id!r}{near}")
    if json:
        listed = [{k: float(v or "nan") if k in NUMBERS else v for k, v in row.items()} for row in rows]
        output.document({"counts": counted(rows, "paper"), "kinds": counted(rows, "kind"), "claims": listed})
        return
    if id is not None:
        whole(rows[0], everything, path.parent)
        return
    kinds = [name for name in KINDS if any(row["kind"] == name for row in rows)]
    for name in kinds:
        summary(name, [row for row in rows if row["kind"] == name])
    output.line("The column facts counts distinct facts: several claims can restate one.")
    every = verdict is not None or exhibit is not None
    for name in kinds:
        for word in tally.ordered(row["verdict"] for row in rows if row["kind"] == name):
            if every or (word == "fails" and name != "extension"):
                output.title(f"{word.capitalize()}, of {KINDS[name]}:")
                for row in (row for row in rows if (row["kind"], row["verdict"]) == (name, word)):
                    output.line(row["title"], indent=2)
                    output.line(f"  {row['id']}")
    output.line()
    more = "" if every else " --verdict or --exhibit lists other claims."
    output.line(f"To see one claim whole: dplangevin claims ID.{more}")


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
    counts, name = counted(rows, "paper"), KINDS[kind]
    output.line(f"{name[0].upper()}{name[1:]} (--kind {kind})", "bold")
    titles = (*counts, "all", "facts")
    columns = [output.Column("verdict", whole=True), *(output.Column(each, number=True) for each in titles)]
    lines = []
    for verdict in (*tally.ordered(row["verdict"] for row in rows), "all"):
        own = [row for row in rows if verdict in (row["verdict"], "all")]
        numbers = [sum(row["paper"] == name for row in own) for name in counts]
        lines.append([verdict, *map(str, (*numbers, len(own), len({row["fact"] for row in own})))])
    output.table(columns, lines)
    output.line()


def exhibits(results: Results = None, json: Json = False) -> None:
    """List every figure and table: its title, its name, and the verdicts on its claims."""
    from dplangevin.data.yaml_file import read

    folder = in_results(results, EXHIBITS)
    claims = tally.read(folder.parent / CLAIMS)
    listed = []
    for path in sorted((folder.parent.parent / "conf/exhibit").glob("*.yaml")):
        content: Any = read(path)
        files = sorted(file.name for file in (folder / path.stem).glob("*"))
        listed.append({"exhibit": path.stem, "title": str(content.get("title") or ""), "files": files})
    if json:
        verdicts = tally.by_exhibit(claims)
        output.document([{**each, "claims": verdicts.get(str(each["exhibit"]), {})} for each in listed])
        return
    for text in tally.LEGEND:
        output.line(text)
    output.line()
    for each in listed:
        marks = tally.marks(claim for claim in claims if each["exhibit"] in tally.shown_by(claim))
        output.line(str(each["title"]), "bold", indent=2)
        state = marks if each["files"] else f"not made: `make exhibit ID={each['exhibit']} SET=pipeline=svhn`"
        output.line(f"  {each['exhibit']}  {state}".rstrip(), indent=4)
    output.line()
    output.line(f"Files: {folder}/<name>/")


def in_results(results: Path | None, name: str) -> Path:
    """Return the path of `name` in the folder of results, or raise FileNotFoundError with the folders searched."""
    here = Path.cwd()
    folders = [results] if results is not None else [each / "results" for each in (here, *here.parents)]
    for folder in folders:
        if (path := folder / name).exists():
            return path.relative_to(here) if path.is_relative_to(here) else path
    where = f"{results}" if results is not None else f"results/ in {here} and the folders above it"
    raise FileNotFoundError(
        f"no {name} in {where}: run this in a checkout of the project, or give --results FOLDER"
    )


def with_value(rows: Sequence[tally.Claim], name: str, value: str) -> list[tally.Claim]:
    """Return the rows with this value; raise ValueError, with the known values, if there are none."""
    columns = (name, "cause") if name == "verdict" else (name,)
    values = [tally.shown_by(row) if name == "exhibit" else [row[key] for key in columns] for row in rows]
    known = sorted({each for own in values for each in own if each})
    if value not in known:
        raise ValueError(
            f"--{name} {value!r}: no such claim{meant(value, known)}; there are {', '.join(known)}"
        )
    return [row for row, own in zip(rows, values, strict=True) if value in own]


def counted(rows: Iterable[tally.Claim], name: str) -> dict[str, Counter[str]]:
    """Return value of a column -> verdict -> number of claims."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row[name], Counter())[row["verdict"]] += 1
    return counts


def experiments(
    every: Annotated[bool, option("Show all methods whose numbers changed.", "--all")] = False,
    json: Json = False,
) -> None:
    """List the runs of `dvc exp`: the changed settings, the accuracy and the proven epsilon."""
    listed = [*read_experiments(exp_show())]
    if json:
        output.document(
            [each._asdict() | {"outcomes": [o._asdict() for o in each.outcomes]} for each in listed]
        )
        return
    if not listed:
        example = "dvc exp run -n radius3 -S method.ops.radius=3 run@compare-abalone"
        output.line(f"No experiments yet: run one, such as `{example}`.")
    for each in listed:
        output.line(f"{each.name}  {each.when}".rstrip(), "bold")
        changed = ", ".join(f"{key}={value}" for key, value in each.changed.items()) or "nothing"
        output.line(f"  changed: {changed}", indent=4)
        named = [o for o in each.outcomes if any(f"method.{o.method}." in key for key in each.changed)]
        outcomes = each.outcomes if every else (named or each.outcomes)[:SHOWN]
        lines = [outcome.text for outcome in outcomes] or [each.state]
        if hidden := len(each.outcomes) - len(outcomes):
            lines.append(f"and {hidden} more (--all)")
        for text in lines:
            output.line(f"  {text}", indent=4)
        output.line()


class Outcome(NamedTuple):
    """Accuracy and proven ε of one method in one run, at its budgets in ascending order; without an ε at infinity."""

    run: str
    method: str
    budgets: list[float]
    accuracy: list[float]
    epsilon_proven: list[float]

    @property
    def text(self) -> str:
        accuracies = " ".join(f"{value:.3f}" for value in self.accuracy)
        shown = f"{self.method} on {self.run}: accuracy {accuracies}"
        if self.budgets == [math.inf]:
            return f"{shown}, without a proven epsilon"
        budgets, prices = map(short, self.budgets), map(at_most, self.epsilon_proven)
        return f"{shown}, at epsilon {' '.join(budgets)}; proven epsilon {' '.join(prices)}"


class Experiment(NamedTuple):
    """A run of `dvc exp`: what it changed, and the methods whose accuracy or price differs from the commit's."""

    name: str
    changed: dict[str, Any]
    state: str
    outcomes: list[Outcome]
    when: str


def exp_show() -> list[dict[str, Any]]:
    """Return what `dvc exp show --json` prints, or raise an error with DVC's own message."""
    if shutil.which("dvc") is None:
        raise FileNotFoundError(
            "the command dvc is not on PATH: pip install '.[pipeline]', or activate the environment that has it"
        )
    done = subprocess.run(["dvc", "exp", "show", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        last = errors[-1] if errors else done.stderr.strip()
        raise ValueError(f"`dvc exp show` failed in {Path.cwd()}: {last.removeprefix('ERROR: ')}")
    shown: list[dict[str, Any]] = json.loads(done.stdout)
    return shown


def read_experiments(shown: Iterable[Mapping[str, Any]]) -> Iterator[Experiment]:
    """Yield the experiments in the output of `dvc exp show --json`, in its order: newest first."""
    from dplangevin.pipeline.config import flatten

    for base in shown:
        before = base.get("data") or {}
        for each in base.get("experiments") or ():
            revision = each["revs"][0]
            data, error = revision["data"] or {}, revision.get("error")
            known = flatten(_of(before, "params", "params.yaml"))
            after = flatten(_of(data, "params", "params.yaml")) if data else {}
            changed = _direct({key: value for key, value in after.items() if known.get(key) != value})
            ended = "failed" if error else "no method's numbers changed: see `dvc exp diff`"
            state = (each.get("executor") or {}).get("state") or ended
            when = str(data.get("timestamp") or "").replace("T", " ")[:16]
            name = each.get("name") or revision["rev"][:7]
            yield Experiment(name, changed, state, [*_outcomes(before, data)], when)


def _direct(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes without those by interpolation: of one last name and value, the key nearest to the top."""
    direct: dict[tuple[str, str], str] = {}
    for key in sorted(changed, key=lambda key: key.count(".")):
        direct.setdefault((key.rpartition(".")[2], repr(changed[key])), key)
    return {key: changed[key] for key in direct.values()}


def _of(data: Mapping[str, Any], kind: str, path: str) -> dict[str, Any]:
    return ((data.get(kind) or {}).get(path) or {}).get("data") or {}


def _outcomes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Outcome]:
    """Yield every method whose numbers differ from those of the commit."""
    for path in after.get("metrics") or {}:
        known = _of(before, "metrics", path)
        for method, budgets in _of(after, "metrics", path).items():
            if budgets == known.get(method):
                continue
            if "accuracy" in budgets:  # alone, see `at_prices` of pipelines/run.py
                budgets = {"at_inf": {**budgets, "epsilon_proven": math.inf}}
            numbers = sorted((float(key.removeprefix("at_")), value) for key, value in budgets.items())
            accuracy = [value.get("accuracy", math.nan) for _, value in numbers]
            price = [value.get("epsilon_proven", math.nan) for _, value in numbers]
            yield Outcome(Path(path).stem, method, [budget for budget, _ in numbers], accuracy, price)
