"""The commands `dplangevin claims`, `exhibits` and `experiments`, which show the contents of a checkout."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dplangevin.cli import output
from dplangevin.papers.claims import tally
from dplangevin.papers.claims.words import at_most
from dplangevin.text import meant, short

CLAIMS, EXHIBITS, PIPELINES = "claims.csv", "exhibits", "conf/pipeline"
KINDS = {  # kinds of claims: the column `kind` of claims.csv
    "paper": "claims in the papers' own words",
    "reading": 'claims without a size, such as "slightly"; we chose the size',
    "extension": "questions of ours, which the papers do not ask",
}
ONE = {  # the same, of one claim
    "paper": "a claim in the paper's own words",
    "reading": 'a claim without a size, such as "slightly"; we chose the size',
    "extension": "a question of ours, which the paper does not ask",
}
SETTINGS = {  # the column `setting`
    "paper": "as the paper states it, or none is needed",
    "special case": "one case of those that the claim is about",
    "chosen": "chosen by us, because the paper states none",
    "stand-in": "another network or other data than the paper's",
    "invented": "data or sizes that the paper does not give",
}
NUMBERS = "ours", "low", "high", "asked_low", "asked_high"
PAGE = "report/claims.html"  # in the folder of results
LABEL = 12  # columns of the labels of one claim
NAME = 25  # columns of the name of an exhibit
SHOWN = 3  # changed methods shown for each experiment, without --all

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="Folder of the results (default: results/ here or in a folder above).",
        show_default=False,
    ),
]


def claims(
    id: Annotated[
        str | None,
        typer.Argument(help="A claim, such as wang2015_lemma5: show all of it.", show_default=False),
    ] = None,
    paper: Annotated[
        str | None, typer.Option(help="Only this paper: wang2015, li2019 or ryffel2022.", show_default=False)
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Option(
            help='Only this verdict or its cause, such as fails or "not testable".', show_default=False
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help=f"Only this kind. {'; '.join(f'{name}: {words}' for name, words in KINDS.items())}.",
            show_default=False,
        ),
    ] = None,
    exhibit: Annotated[
        str | None,
        typer.Option(help="Only claims that this exhibit shows, such as wang2015_fig1c.", show_default=False),
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
            raise ValueError(
                f"no claim {id!r}{near or '; `dplangevin claims --verdict ...` lists their ids'}"
            )
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
    output.line()
    every = verdict is not None or exhibit is not None
    for name in kinds:
        for word in tally.ordered(row["verdict"] for row in rows if row["kind"] == name):
            if every or (word == "fails" and name != "extension"):
                titles(name, word, [row for row in rows if (row["kind"], row["verdict"]) == (name, word)])
    more = "" if every else " --verdict or --exhibit lists other claims."
    output.line(f"To see one claim whole: dplangevin claims ID.{more}")


def titles(kind: str, verdict: str, rows: Sequence[tally.Claim]) -> None:
    """Print title and id of claims that have one verdict."""
    facts = output.counted(len({row["fact"] for row in rows}), "distinct fact")
    noun = re.split("[,;]", KINDS[kind])[0]
    output.line(f"{verdict.capitalize()}: {len(rows)} of the {noun}, on {facts}", "bold")
    for row in rows:
        output.line(row["title"], indent=2)
        output.line(f"  {row['id']}")
    output.line()


def whole(claim: tally.Claim, everything: Sequence[tally.Claim], folder: Path) -> None:
    """Print one claim with its quotation, our result, the reason and the files."""
    import pandas as pd  # here, since `--help` needs none

    from dplangevin.papers.claims.sentences import sentence

    numbers = {name: float(claim[name] or "nan") for name in NUMBERS}
    same = sum(other["fact"] == claim["fact"] for other in everything) - 1
    restated = output.counted(same, "other claim")
    shown = [f"{folder / EXHIBITS / name}/" for name in tally.shown_by(claim)]
    output.line(claim["title"], "bold")
    output.line(tally.word(claim), "bold")
    output.line()
    for label, text in (
        ("id", claim["id"]),
        ("place", f"{claim['paper']}, {claim['where']}"),
        ("quotation", f'"{claim["statement"]}"'),
        ("read as", claim["published"]),
        ("kind", ONE[claim["kind"]]),
        ("setting", SETTINGS.get(claim["setting"], claim["setting"])),
        ("result", sentence(pd.Series({**claim, **numbers}))),
        ("reason", claim["reason"]),
        (
            "fact",
            f"{claim['fact']}; {restated} {'restates' if same == 1 else 'restate'} it"
            if same
            else claim["fact"],
        ),
        ("shown in", ", ".join(shown)),
        ("evidence", claim["evidence"].replace("; ", ", ")),
        ("page", f"{folder / PAGE}#{claim['id']}"),
    ):
        if text:
            output.line(f"{label:<{LABEL}}{text}", indent=LABEL)


def summary(kind: str, rows: Sequence[tally.Claim]) -> None:
    """Print the verdicts on the claims of one kind.

    A row counts the claims of each paper, all claims, and the distinct facts behind them.
    """
    counts = counted(rows, "paper")
    name = KINDS[kind]
    output.line(f"{name[0].upper()}{name[1:]} (--kind {kind})", "bold")
    columns = [
        output.Column("verdict", whole=True),
        *(output.Column(title, number=True) for title in (*counts, "all", "facts")),
    ]
    lines = []
    for verdict in (*tally.ordered(row["verdict"] for row in rows), "all"):
        own = [row for row in rows if verdict in (row["verdict"], "all")]
        numbers = [sum(row["paper"] == name for row in own) for name in counts]
        facts = {row["fact"] for row in own}
        lines.append([verdict, *(str(n) for n in (*numbers, len(own), len(facts)))])
    output.table(columns, lines)
    output.line()


def exhibits(results: Results = None, json: Json = False) -> None:
    """List every figure and table: its title, its name, the verdicts on its claims, or why it is missing."""
    folder = in_results(results, EXHIBITS)
    listed = [*all_exhibits(folder.parent.parent, folder)]
    claims = tally.read(folder.parent / CLAIMS)
    if json:
        verdicts = tally.by_exhibit(claims)
        output.document([{**each._asdict(), "claims": verdicts.get(each.exhibit, {})} for each in listed])
        return
    for text in tally.LEGEND:
        output.line(text)
    output.line()
    for each in listed:
        marks = tally.marks(claim for claim in claims if each.exhibit in tally.shown_by(claim))
        output.line(each.title or each.exhibit, "bold", indent=2)
        output.line(f"  {each.exhibit:<{NAME}} {marks}".rstrip(), indent=4)
        if not each.files:
            output.line(f"  {each.state}", indent=4)
    output.line()
    made = sum(bool(each.files) for each in listed)
    output.line(f"{made} of {len(listed)} are made. Files: {folder}/<name>/")


def in_results(results: Path | None, name: str) -> Path:
    """Return the path of `name` in the folder of results.

    Raise FileNotFoundError, naming the folders that were searched, if it is not there.
    """
    here = Path.cwd()
    folders = [results] if results is not None else [each / "results" for each in (here, *here.parents)]
    for folder in folders:
        if (folder / name).exists():
            path = folder / name
            return path.relative_to(here) if path.is_relative_to(here) else path
    where = f"{results}" if results is not None else f"results/ in {here} and the folders above it"
    raise FileNotFoundError(
        f"no {name} in {where}: run this in a checkout of the project, or give --results FOLDER"
    )


def with_value(rows: Sequence[tally.Claim], name: str, value: str) -> list[tally.Claim]:
    """Return the rows with this value; raise ValueError, with the known values, if there are none."""
    values = [
        tally.shown_by(row)
        if name == "exhibit"
        else [row[key] for key in ((name, "cause") if name == "verdict" else (name,))]
        for row in rows
    ]
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


class Exhibit(NamedTuple):
    """A figure or table of conf/exhibit; its state is "made", or "missing: " and the reason."""

    exhibit: str
    title: str
    state: str
    source: str
    files: list[str]


def all_exhibits(top: Path, folder: Path) -> Iterator[Exhibit]:
    """Yield the exhibits of all pipelines in conf/pipeline, those of the default one first.

    Then yield exhibits that have a folder but belong to no pipeline.
    """
    from dplangevin.data.yaml_file import read

    paths = sorted((top / PIPELINES).glob("*.yaml"), key=lambda path: path.stem != "default")
    sources: dict[str, tuple[str, str]] = {}
    for path in paths:
        listed: Any = read(path)
        for name, source in (listed.get("exhibits") or {}).items():
            first = source[0] if isinstance(source, list) else source
            sources.setdefault(str(name), (str(first), path.stem))
    for name in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        sources.setdefault(name, ("", ""))
    for name, (source, pipeline) in sources.items():
        files = sorted(path.name for path in (folder / name).glob("*")) if (folder / name).is_dir() else []
        described = top / "conf/exhibit" / f"{name}.yaml"
        content: Any = read(described) if described.exists() else {}
        state = "made" if files else f"missing: {_why(top, name, source, pipeline)}"
        yield Exhibit(name, str(content.get("title") or ""), state, source, files)


def _why(top: Path, name: str, source: str, pipeline: str) -> str:
    if pipeline != "default":
        return f"only `make repro SET=pipeline={pipeline}` makes it"
    if not (top / source).exists():
        return f"{source} is missing: `make exhibit ID={name}`"
    return f"not drawn yet: `dvc repro render@{name}`"


def experiments(
    every: Annotated[
        bool, typer.Option("--all", help="Show all methods and data sets whose numbers changed.")
    ] = False,
    json: Json = False,
) -> None:
    """List the runs of `dvc exp`: the changed settings, the accuracy and the proven epsilon."""
    listed = [*read_experiments(exp_show())]
    if json:
        output.document(
            [
                {
                    **each._asdict(),
                    "outcomes": [outcome._asdict() for outcome in each.outcomes],
                    "results": [result._asdict() for result in each.results],
                }
                for each in listed
            ]
        )
        return
    if not listed:
        output.line(
            "No experiments yet: run one, such as `dvc exp run -n radius3 -S method.ops.radius=3 run@compare-abalone`."
        )
        return
    for each in listed:
        output.line(f"{each.name}  {each.when}".rstrip(), "bold")
        changed = ", ".join(f"{key}={value}" for key, value in each.changed.items()) or "nothing"
        output.line(f"  changed: {changed}", indent=4)
        named = [o for o in each.outcomes if any(f"method.{o.method}." in key for key in each.changed)]
        outcomes = each.outcomes if every else (named or each.outcomes)[:SHOWN]
        lines = [outcome.text for outcome in outcomes]
        if every or not lines:
            lines += [str(result) for result in each.results]
        if hidden := len(each.outcomes) - len(outcomes):
            lines.append(f"and {hidden} more (--all)")
        for text in lines or [each.state]:
            output.line(f"  {text}", indent=4)
        output.line()


class Outcome(NamedTuple):
    """Accuracy and proven ε of one method in one run, at its budgets in ascending order.

    A method without a finite proven ε has one budget, infinity.
    """

    run: str
    method: str
    budgets: list[float]
    accuracy: list[float]
    epsilon_proven: list[float]

    @property
    def text(self) -> str:
        """Return the numbers in one line."""
        accuracies = " ".join(f"{value:.3f}" for value in self.accuracy)
        shown = f"{self.method} on {self.run}: accuracy {accuracies}"
        if self.budgets == [math.inf]:
            return f"{shown}, without a proven epsilon"
        budgets = " ".join(short(budget) for budget in self.budgets)
        prices = " ".join(map(at_most, self.epsilon_proven))
        return f"{shown}, at epsilon {budgets}; proven epsilon {prices}"


class Result(NamedTuple):
    """An output that differs from the commit's.

    For a run, it names the points that are new, have other numbers, or are gone.
    """

    path: str
    new: list[str]
    other: list[str]
    gone: list[str]

    def __str__(self) -> str:
        counts = ((self.new, "new"), (self.other, "with other numbers"), (self.gone, "gone"))
        texts = [f"{len(points)} {words}" for points, words in counts if points]
        return f"{self.path} changed" + (f", points: {', '.join(texts)}" if texts else "")


class Experiment(NamedTuple):
    """A run of `dvc exp`.

    - `changed`: Parameters that differ from the commit that the experiment started from.
    - `outcomes`: Methods whose accuracy or price differs, for experiments with `metrics: true`.
    - `results`: Files in results/ that differ.
    """

    name: str
    changed: dict[str, Any]
    state: str
    outcomes: list[Outcome]
    results: list[Result]
    when: str


def exp_show() -> list[dict[str, Any]]:
    """Return what `dvc exp show --json` prints.

    Raise FileNotFoundError without DVC, and ValueError with DVC's own message if DVC fails.
    """
    if shutil.which("dvc") is None:
        raise FileNotFoundError(
            "the command dvc is not on PATH: pip install '.[pipeline]', or activate the environment that has it"
        )
    done = subprocess.run(["dvc", "exp", "show", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [
            done.stderr.strip()
        ]
        raise ValueError(f"`dvc exp show` failed in {Path.cwd()}: {lines[-1].removeprefix('ERROR: ')}")
    shown: list[dict[str, Any]] = json.loads(done.stdout)
    return shown


def read_experiments(shown: Iterable[Mapping[str, Any]]) -> Iterator[Experiment]:
    """Yield the experiments in the output of `dvc exp show --json`, in its order: newest first."""
    from dplangevin.pipeline.config import flatten

    for base in shown:
        if not base.get("experiments"):
            continue
        before = _of(base["data"], "params", "params.yaml")
        for each in base["experiments"]:
            revision = each["revs"][0]
            data, error = revision["data"] or {}, revision.get("error")
            after = flatten(_of(data, "params", "params.yaml")) if data else {}
            known = flatten(before)
            changed = _direct({key: value for key, value in after.items() if known.get(key) != value})
            state = (each.get("executor") or {}).get("state") or ("failed" if error else "no result changed")
            when = str(data.get("timestamp") or "").replace("T", " ")[:16]
            name = each.get("name") or revision["rev"][:7]
            results = [*_results(base, revision)]
            yield Experiment(name, changed, state, [*_outcomes(base["data"], data)], results, when)


def _direct(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes without those that only follow by interpolation.

    A key is left out if a key nearer the top has the same last name and the same value.
    """
    direct: dict[tuple[str, str], str] = {}  # last name and value -> key
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
            accuracy, price = (
                [value.get(k, float("nan")) for _, value in numbers] for k in ("accuracy", "epsilon_proven")
            )
            yield Outcome(Path(path).stem, method, [budget for budget, _ in numbers], accuracy, price)


def _results(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Result]:
    """Yield every output in results/ that differs from the commit's, except results/metrics/."""
    known, outs = (((each["data"] or {}).get("outs") or {}) for each in (before, after))
    for path, out in outs.items():
        if path.startswith("results/") and not path.startswith("results/metrics/") and out != known.get(path):
            old, new = (_points(each["rev"], path) for each in (before, after))
            other = [name for name in new if name in old and new[name] != old[name]]
            yield Result(
                path,
                [name for name in new if name not in old],
                other,
                [name for name in old if name not in new],
            )


def _points(revision: str, path: str) -> dict[str, list[list[str]]]:
    """Return the scores of every point of a run in a git revision; empty if there are none."""
    command = ["git", "show", f"{revision}:{path}/scores.csv"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    points: dict[str, list[list[str]]] = {}
    for row in csv.DictReader(found.splitlines()):
        name = " ".join(filter(None, (row["run"], row["variant"], row["scaling"])))
        points.setdefault(name, []).append([row[key] for key in ("epsilon", "seed", "metric", "value")])
    return points
