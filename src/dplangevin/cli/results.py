"""The commands `dplangevin claims`, `exhibits` and `experiments`, which show the contents of a checkout."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dplangevin.cli import output
from dplangevin.papers.claims import tally
from dplangevin.text import meant, short

CLAIMS, EXHIBITS, PIPELINES = "claims.csv", "exhibits", "conf/pipeline"
KINDS = {  # kinds of claims: the column `kind` of claims.csv
    "paper": "in the papers' own words",
    "reading": "in words whose size we had to read",
    "extension": "that are questions of ours",
}
SHOWN = 3  # changed methods shown for each experiment, without --all

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results", help="The folder; else results/ here or in a folder above.", show_default=False
    ),
]


def claims(
    paper: Annotated[str | None, typer.Option(help="wang2015, li2019 or ryffel2022.")] = None,
    verdict: Annotated[
        str | None, typer.Option(help='Such as reproduced, contradicted, or "not reproduced".')
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="; ".join(f"{name}: {words}" for name, words in KINDS.items()) + ".")
    ] = None,
    exhibit: Annotated[str | None, typer.Option(help="That shows the claim, such as wang2015_fig1c.")] = None,
    results: Results = None,
    json: Json = False,
) -> None:
    """Show what the papers claim: verdict, our number beside theirs, and where."""
    rows = tally.read(in_results(results, CLAIMS))
    for name, value in (("paper", paper), ("kind", kind), ("verdict", verdict), ("exhibit", exhibit)):
        if value is not None:
            rows = with_value(rows, name, value)
    if json:
        numbers = {"ours", "low", "high", "asked_low", "asked_high"}
        listed = [{k: float(v or "nan") if k in numbers else v for k, v in row.items()} for row in rows]
        output.document({"counts": counted(rows, "paper"), "kinds": counted(rows, "kind"), "claims": listed})
        return
    for name in sorted(counted(rows, "kind"), key=[*KINDS].index):
        summary(name, [row for row in rows if row["kind"] == name])
    ours = [short(float(row["ours"])) if row["ours"] else "" for row in rows]
    if output.terminal():
        for row, number in zip(rows, ours, strict=True):
            of_ours = f", ours {number} {row['unit']}".rstrip() if number else ""
            output.line(f"{row['id']}: {row['verdict']}{of_ours}", "bold", indent=2)
            output.line(f"  {row['where']}: {row['published']}", indent=2)
        return
    names = ("claim", "verdict", "ours", "published", "where")
    output.table(
        [output.Column(name, number=name == "ours") for name in names],
        [
            [row["id"], row["verdict"], number, row["published"], row["where"]]
            for row, number in zip(rows, ours, strict=True)
        ],
    )


def summary(kind: str, rows: Sequence[tally.Claim]) -> None:
    """Print the verdicts on the claims of one kind.

    A row counts the claims of each paper, all claims, and the distinct facts behind them.
    """
    counts = counted(rows, "paper")
    output.line(f"Claims {KINDS[kind]} (--kind {kind})", "bold")
    titles = (*counts, "all", "distinct facts")
    columns = [output.Column("verdict"), *(output.Column(title, number=True) for title in titles)]
    lines = []
    for verdict in (*dict.fromkeys(row["verdict"] for row in rows), "all"):
        own = [row for row in rows if verdict in (row["verdict"], "all")]
        numbers = [sum(row["paper"] == name for row in own) for name in counts]
        facts = {row["fact"] for row in own}
        lines.append([verdict, *(str(n or "") for n in (*numbers, len(own), len(facts)))])
    output.table(columns, lines)
    output.line()


def exhibits(results: Results = None, json: Json = False) -> None:
    """Every figure and table: whether it is made, its files, and the verdicts of its claims."""
    folder = in_results(results, EXHIBITS)
    listed = [*all_exhibits(folder.parent.parent, folder)]
    verdicts = tally.by_exhibit(tally.read(folder.parent / CLAIMS))
    if json:
        output.document([{**each._asdict(), "claims": verdicts.get(each.exhibit, {})} for each in listed])
        return
    names = ("exhibit", "state", "files", "claims")
    rows = []
    for each in listed:
        files = ", ".join(sorted({Path(name).suffix[1:] for name in each.files}))
        counts = verdicts.get(each.exhibit, Counter()).most_common()
        rows.append([each.exhibit, each.state, files, ", ".join(f"{n} {verdict}" for verdict, n in counts)])
    output.table([output.Column(name, whole=name in ("exhibit", "files")) for name in names], rows)
    output.line()
    output.line(
        f"{sum(bool(each.files) for each in listed)} of {len(listed)} are made; files are in {folder}/<exhibit>/."
    )


def in_results(results: Path | None, name: str) -> Path:
    """Return the path of `name` in the folder of results.

    Raise FileNotFoundError, naming the folders that were searched, if it is not there.
    """
    here = Path.cwd()
    folders = [results] if results is not None else [each / "results" for each in (here, *here.parents)]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    where = f"{results}" if results is not None else f"results/ in {here} and the folders above it"
    raise FileNotFoundError(
        f"no {name} in {where}: run this in a checkout of the project, or give --results FOLDER"
    )


def with_value(rows: Sequence[tally.Claim], name: str, value: str) -> list[tally.Claim]:
    """Return the rows with this value; raise ValueError, with the known values, if there are none."""
    values = [tally.shown_by(row) if name == "exhibit" else [row[name]] for row in rows]
    known = sorted({each for own in values for each in own})
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
    """A figure or table, and whether it exists.

    Attributes
    ----------
    state : str
        "made", or "missing: " and the reason.
    source : str
        The results that it shows.
    files : list of str
        Names of the files in its folder.
    """

    exhibit: str
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
            sources.setdefault(str(name), (str(source), path.stem))
    for name in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        sources.setdefault(name, ("", ""))
    for name, (source, pipeline) in sources.items():
        files = sorted(path.name for path in (folder / name).glob("*")) if (folder / name).is_dir() else []
        yield Exhibit(
            name, "made" if files else f"missing: {_why(top, name, source, pipeline)}", source, files
        )


def _why(top: Path, name: str, source: str, pipeline: str) -> str:
    if pipeline != "default":
        return f"only asked for by `make repro SET=pipeline={pipeline}`"
    if not (top / source).exists():
        return f"{source} is missing: `make exhibit ID={name}`"
    return f"not drawn yet: `dvc repro render@{name}`"


def experiments(
    every: Annotated[
        bool, typer.Option("--all", help="All methods and data sets whose numbers changed.")
    ] = False,
    json: Json = False,
) -> None:
    """List the runs of `dvc exp`: what was changed, what it brought and cost, and when."""
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
    names = ("name", "changed", "what came of it", "price", "when")
    columns = [output.Column(name, whole=name in ("name", "price")) for name in names]
    rows: list[list[str]] = []
    for each in listed:
        changed = ", ".join(f"{key}={value}" for key, value in each.changed.items()) or "nothing"
        named = [o for o in each.outcomes if any(f"method.{o.method}." in key for key in each.changed)]
        outcomes = each.outcomes if every else (named or each.outcomes)[:SHOWN]
        lines = [(o.accuracies, o.prices) for o in outcomes]
        if every or not lines:
            lines += [(str(result), "") for result in each.results]
        if hidden := len(each.outcomes) - len(outcomes):
            lines.append((f"and {hidden} more (--all)", ""))
        for i, (text, price) in enumerate(lines or [(each.state, "")]):
            first = i == 0
            rows.append(
                [
                    each.name if first else "",
                    changed if first else "",
                    text,
                    price,
                    each.when if first else "",
                ]
            )
    output.table(columns, rows)


class Outcome(NamedTuple):
    """Accuracy and proven ε of one method in one run, at its budgets in ascending order."""

    run: str
    method: str
    budgets: list[float]
    accuracy: list[float]
    epsilon_proven: list[float]

    @property
    def accuracies(self) -> str:
        numbers = " ".join(f"{value:.3f}" for value in self.accuracy)
        return f"{self.method} on {self.run}:\n{numbers} at {', '.join(short(b) for b in self.budgets)}"

    @property
    def prices(self) -> str:
        return " ".join(short(value) for value in self.epsilon_proven)


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

    Attributes
    ----------
    changed : dict
        Parameters that differ from the commit that the experiment started from.
    outcomes : list of Outcome
        Methods whose accuracy or price differs, for experiments with `metrics: true`.
    results : list of Result
        Files in results/ that differ.
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
            "the command dvc is not on PATH: activate the environment (. .venv/bin/activate)"
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
