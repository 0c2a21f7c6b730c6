"""The pages of the report as bytes, from the results and the texts of `conf/report`.

The bytes do not depend on when, where or how often the pages are made. Pages link to files of `results`,
which lies beside them. They use no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from omegaconf import DictConfig

from dplangevin.files import sha256
from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.words import PAPERS, at_least, at_most, relations
from dplangevin.papers.exhibits import privacy, read
from dplangevin.papers.exhibits.style import look
from dplangevin.papers.report import claims
from dplangevin.papers.report.findings import TEXTS, filled, known
from dplangevin.pipeline.config import content
from dplangevin.pipeline.environment import largest
from dplangevin.text import distinct, epsilon, number, setting, short

TEMPLATES = Path(__file__).with_name("templates")
RESULTS = Path("results")
ROOT = "../../"  # path from the folder of the report to the repository
MENU = {
    "index.html": "Findings",
    "claims.html": "Claims",
    "exhibits.html": "Exhibits",
    "privacy.html": "Privacy",
    "how.html": "How it was made",
}
SETTINGS = {  # columns of runs.csv, in words
    "batch": "batch",
    "epochs": "epochs",
    "steps": "steps",
    "clip": "clip norm",
    "step_size": "step size",
    "l2": "regulariser (λ per row)",
    "noise_multiplier": "noise multiplier",
}
LIBRARIES = (
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "dp-accounting",
    "arviz",
    "hydra-core",
    "dvc",
    "matplotlib",
    "Jinja2",
)


class Site:
    """The data behind the pages, and the pages made from it.

    - `cfg`: The composed configuration.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.table = read.read_claims(RESULTS / "claims.csv")
        self.by_id = self.table.set_index("id")
        self.made = [str(name) for name in cfg.pipeline.exhibits if self.folder(str(name)).is_dir()]
        self.claims = {claim.id: claim for claim in claims.read(self.table, self.made)}
        findings = self._content("report", "findings")
        self.findings, self.promises = findings["findings"], findings["promises"]
        self.exhibit_texts = self._content("report", "exhibits")["groups"]
        self.environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters["file"] = lambda path: f"{ROOT}{path}"
        self.environment.globals |= {
            "menu": MENU,
            "papers": claims.PAPERS,
            "short_names": PAPERS,
            "kinds": claims.KINDS,
            "settings_of_claims": claims.SETTINGS,
            "measures": claims.MEASURES,
            "there": lambda path: Path(path).exists(),
        }

    def _content(self, kind: str, name: str) -> dict[str, Any]:
        """Return the content of a file of conf/."""
        return content(kind, name, self.cfg)

    def folder(self, exhibit: str) -> Path:
        """Return the result folder of an exhibit."""
        return RESULTS / "exhibits" / exhibit

    def pages(self) -> dict[str, bytes]:
        """Return the bytes of every file of the site, by its name."""
        found = {
            "index.html": self.page("index.html", **self._findings()),
            "claims.html": self.page("claims.html", **self._claims()),
            "exhibits.html": self.page("exhibits.html", groups=self.exhibits),
            "privacy.html": self.page("privacy.html", **self._privacy()),
            "how.html": self.page("how.html", **self._how()),
        }
        for group in self.exhibits:
            for entry in group["entries"]:
                if entry["made"]:
                    found[entry["page"]] = self.page("exhibit.html", group=group, **self._exhibit(entry))
        texts = {
            **found,
            **{name: (TEMPLATES / name).read_text("utf-8") for name in ("style.css", "site.js")},
        }
        return {name: text.encode() for name, text in sorted(texts.items())}

    def page(self, template: str, **values: Any) -> str:
        """Return the HTML of one page without empty lines."""
        here = "exhibits.html" if template == "exhibit.html" else template
        text = self.environment.get_template(template).render(here=here, **values)
        return "".join(f"{line}\n" for line in map(str.rstrip, text.splitlines()) if line)

    # Findings

    def _findings(self) -> dict[str, Any]:
        """Return the values of the page of findings; a finding appears only if all its claims exist."""
        exhibits = {entry["id"]: entry for group in self.exhibits for entry in group["entries"]}
        texts = {name: entry for name, entry in self.findings.items() if known(entry, self.by_id)}
        _, numbers = claims.counts(self.table)[0]
        return {
            "findings": [
                {
                    "id": name.replace("_", "-"),
                    **{part: filled(entry[part], self.by_id) for part in TEXTS},
                    "quote": self.claims[entry["quote"]],
                    "claims": [self.claims[claim] for claim in entry["claims"]],
                    "exhibit": exhibits[entry["exhibit"]],
                }
                for name, entry in texts.items()
            ],
            "counts": [
                (verdict, cause, claims.LOOKS[verdict], tally.MARKS[verdict], number)
                for (verdict, cause), number in zip(claims.COUNTED, numbers, strict=False)
            ],
            "total": numbers[-1],
            "facts": len(claims.failed(self.table)),
            "readings": int(self.table.kind.eq("reading").sum()),
            "questions": int(self.table.kind.eq("extension").sum()),
        }

    # Claims

    def _claims(self) -> dict[str, Any]:
        """Return the values of the page of claims."""
        return {
            "sentences": claims.in_order(self.claims.values()),
            "columns": [f"{verdict}: {cause}" if cause else verdict for verdict, cause in claims.COUNTED],
            "counts": claims.counts(self.table),
            "questions": claims.questions(self.table),
            "failed": claims.failed(self.table),
            "verdicts": [
                (name, text, claims.LOOKS[name], tally.MARKS[name], verdicts.CAUSES[name])
                for name, text in verdicts.WORDS.items()
            ],
            "exhibits": sorted({name for claim in self.claims.values() for name in claim.exhibits}),
            "made": self.made,
            "total": len(self.table),
        }

    # Exhibits

    @cached_property
    def exhibits(self) -> list[dict[str, Any]]:
        """Return the groups of exhibits, each with the entries of its list."""
        there = {path.stem for path in Path("conf/exhibit").glob("*.yaml")}
        written = {name: text for group in self.exhibit_texts.values() for name, text in group.items()}
        groups = {
            name: {key: text for key, text in group.items() if key in there}
            for name, group in self.exhibit_texts.items()
        }
        groups["all"] |= {
            name: {"of": "", "finding": "", "open": ""} for name in sorted(there - set(written))
        }
        return [
            {
                "id": name,
                "title": claims.PAPERS.get(name, "All three papers"),
                "entries": [self._entry(*item) for item in group.items()],
            }
            for name, group in groups.items()
        ]

    def _entry(self, name: str, text: Mapping[str, str]) -> dict[str, Any]:
        """Return what the list of exhibits shows of one exhibit."""
        spec = self._content("exhibit", name)
        try:
            finding = filled(text["finding"], self.by_id)
        except KeyError:
            finding = ""
        found = {"id": name, "title": spec["title"], "of": text["of"], "open": text["open"], "spec": spec}
        made = name in self.made
        files = sorted(path.name for path in self.folder(name).iterdir()) if made else []
        return {**found, "finding": finding, "made": made, "page": f"exhibit-{name}.html", "files": files}

    def _exhibit(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the page of one exhibit."""
        name, spec = entry["id"], entry["spec"]
        rows = [claim for claim in self.claims.values() if name in claim.exhibits]
        kinds = {"png": "PNG", "pdf": "PDF", "csv": "numbers (CSV)", "md": "table with notes (Markdown)"}
        files = [
            (
                f"../exhibits/{name}/{file}",
                kinds[file.rsplit(".")[-1]] + (", at the proven ε" if "_proven" in file else ""),
            )
            for file in entry["files"]
        ]
        return {
            "entry": entry,
            "figure": f"../exhibits/{name}/{name}.png",
            "twin": f"../exhibits/{name}/{name}_proven.png" if f"{name}_proven.png" in entry["files"] else "",
            "files": files,
            "claims": rows,
            "chosen": [row for row in rows if row.setting != "paper"],
            "settings": self._settings(name, spec),
            "assumed": self._assumed(spec),
            "source": spec["source"],
        }

    def _folders(self, spec: Mapping[str, Any]) -> list[str]:
        """Return the folders of runs that an exhibit shows and that exist."""
        if not str(spec["source"]).startswith("results/runs"):
            return []
        return [name for name in read.folders(spec, self.cfg) if (read.RUNS / name / "runs.csv").is_file()]

    def _settings(self, name: str, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the settings of an exhibit as labels and values.

        For runs they come from the rows. For an analysis they are its numbers in conf/analysis.
        """
        folders = self._folders(spec)
        if not folders:
            analysis = Path(spec["source"]).stem
            numbers = self.cfg.get("analysis", {}).get(analysis, {})
            return [
                (str(key).replace("_", " "), _plain(value))
                for key, value in numbers.items()
                if not re.search(r"\{|dplangevin\.", str(value))  # nested, or names code
            ]
        frame = read.read_runs(folders, spec.get("runs", ()))
        private = frame[np.isfinite(frame.epsilon)]
        found = [
            ("data", _listed(frame.dataset)),
            ("training rows", _listed(frame.records.dropna().map("{:,.0f}".format))),
            ("methods", _listed(frame.method.map(lambda method: look(method).label))),
            ("repeats (seeds)", f"{frame.seed.nunique()}"),
            ("δ", _listed(private.delta.map(number))),
            ("promised ε", _span(private.epsilon)),
            ("neighbours of the proven ε", relations(_listed(private.adjacency_proven))),
        ]
        for column, label in SETTINGS.items():
            values = frame[column].dropna()
            values = values[np.isfinite(values)]
            if len(values):
                found.append((label, _span(values)))
        return [(label, text) for label, text in found if text]

    def _assumed(self, spec: Mapping[str, Any]) -> list[str]:
        """Return the assumptions under which the guarantees of an exhibit's rows hold."""
        paths = [read.RUNS / name / "runs.csv" for name in self._folders(spec)]
        texts = [pd.read_csv(path, usecols=["assumptions"]).assumptions.dropna() for path in paths]
        return sorted(distinct(text for column in texts for text in column))

    # Privacy

    def _privacy(self) -> dict[str, Any]:
        """Return the values of the page about privacy."""
        promises = []
        if "privacy_claims" in self.made:
            frame = read.read_analysis("privacy_claims")
            promises = [
                (str(paper), [self._promise(frame, row) for _, row in group.iterrows()])
                for paper, group in frame.groupby("paper", sort=False)
            ]
        return {
            "promises": promises,
            "says": self.promises,
            "attacks": privacy.ATTACKS,
            "steps": "ryffel2022_privacy" in self.made,
        }

    def _promise(self, frame: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
        """Return what the page about privacy shows of one printed guarantee."""
        verdict = privacy.outcome(frame, row)
        claim = f"{row.paper}_{row.id}"
        prices = (
            row.epsilon_claimed,
            row.epsilon_formula,
        )
        bounds = [
            *map(at_most, (row.epsilon_add_remove, row.epsilon_replace_one)),
            at_least(row.epsilon_attack),
        ]
        return {
            "label": row.label,
            "where": row["where"],
            "delta": epsilon(row.delta),
            "prices": [*map(epsilon, prices), *bounds],
            "outcome": tally.word(verdict),
            "look": (claims.LOOKS[verdict["verdict"]], tally.MARKS[verdict["verdict"]]),
            "claim": claim if claim in self.claims else "",
        }

    # How it was made

    def _how(self) -> dict[str, Any]:
        """Return the values of the page about versions, data, run times and missing parts."""
        lock = Path("requirements.lock").read_text("utf-8").splitlines()
        versions = dict(line.split("==") for line in lock if "==" in line and not line.startswith("#"))
        manifests = sorted(Path("data/manifest/dataset").glob("*.json"))
        data = [(path.stem, json.loads(path.read_text("utf-8"))) for path in manifests]
        untested = [claim for claim in self.claims.values() if claim.cause == verdicts.NOT_TESTABLE]
        hashed = ("results/claims.csv", "data/manifest/code.json", "params.yaml", "requirements.lock")
        return {
            "versions": [(name, versions[name]) for name in LIBRARIES if name in versions],
            "all_versions": sorted(versions.items()),
            "seed": self.cfg.seed,
            "repeats": self.cfg.repeats,
            "scale": self.cfg.scale,
            "delta": number(self.cfg.delta),
            "data": [(name, self.cfg.dataset.get(name, {}), stated) for name, stated in data],
            "counts": self._counts(sorted(read.RUNS.glob("*/*/runs.csv"))),
            "timings": self._timings(read.read_timings("compare")),
            "machine": pd.read_csv(read.TIMINGS).machine.iloc[0],
            "made": _made(
                [*read.RUNS.glob("*/*/runs.units.json"), *Path("results/analyses").glob("*.units.json")]
            ),
            "untested": untested,
            "missing": [e for group in self.exhibits for e in group["entries"] if not e["made"]],
            "hashes": [(path, sha256(path)) for path in hashed],
        }

    def _counts(self, runs: list[Path]) -> list[tuple[str, ...]]:
        """Return the name of every folder of runs, its number of settings and its number of scores."""
        counts = []
        for path in runs:
            lines = [path.with_name(f).read_bytes().count(b"\n") - 1 for f in ("runs.csv", "scores.csv")]
            counts.append((f"{path.parts[-3]}/{path.parts[-2]}", *map("{:,}".format, lines)))
        return counts

    def _timings(self, table: pd.DataFrame) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Return the data sets, and the run time of each method on each of them."""
        datasets = [*dict.fromkeys(table.dataset)]
        wide = dict(zip(zip(table.dataset, table.method, strict=True), table.value, strict=True))
        methods = [*dict.fromkeys(table.method)]
        return datasets, [
            (
                look(method).label,
                [short(float(wide[key])) if (key := (name, method)) in wide else "" for name in datasets],
            )
            for method in methods
        ]


def _made(lists: Sequence[Path]) -> dict[str, str]:
    """Return how many tasks the present code computed, and by how much those of earlier code moved at most."""
    said = [entry.get("renewed", "") for path in lists for entry in json.loads(path.read_bytes())]
    renewed = [text for text in said if text]
    compared = [largest(text) for text in renewed if not re.search(r"\b0 of \d+ tasks", text)]
    counts = {"tasks": len(said), "computed": len(said) - len(renewed), "renewed": len(renewed)}
    counts |= {"compared": len(compared), "unchecked": len(renewed) - len(compared)}
    return {**{name: f"{n:,}" for name, n in counts.items()}, "move": short(max(compared, default=0.0))}


def _listed(values: Any) -> str:
    """Return the distinct values, joined by commas."""
    return ", ".join(dict.fromkeys(str(value) for value in values if str(value)))


def _span(values: pd.Series) -> str:
    """Return up to six values as they are, and more as their range."""
    found = [*dict.fromkeys(setting(value) for value in sorted(values))]
    return ", ".join(found) if len(found) <= 6 else f"{found[0]} to {found[-1]} ({len(found)} values)"


def _plain(value: Any) -> str:
    """Return a value of the configuration as text."""
    if isinstance(value, float):
        return number(value)
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return ", ".join(_plain(item) for item in value)
    return str(value)
