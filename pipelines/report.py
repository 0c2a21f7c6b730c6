"""Write claims.csv, the pages results/report/, or the findings in README.md."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from omegaconf import DictConfig
from stage import stage

from dplangevin import files
from dplangevin.papers.claims.evaluation import evaluate
from dplangevin.papers.report.findings import in_readme
from dplangevin.papers.report.pages import pages
from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import content, one_of
from dplangevin.reporting import read
from dplangevin.text import csv_bytes

RESULTS = Path("results")
README = Path("README.md")


def claims(cfg: DictConfig) -> None:
    """Write results/claims.csv from the results and the claims of all papers."""
    parts = [table(name, cfg) for name in cfg.pipeline.papers]
    files.write(RESULTS, {"claims.csv": csv_bytes(pd.concat(parts))})


def table(name: str, cfg: DictConfig) -> pd.DataFrame:
    """Return the claims of one paper with our numbers and a verdict."""
    paper = content("claim", name, cfg)
    analyses = {name: read.read_analysis(name) for name in paper.get("analyses", ())}
    runs = runs_of(paper.get("runs", {}), cfg)
    if paper.get("data"):
        runs["data"] = pd.concat([facts(cfg, dataset) for dataset in paper["data"]])
    return evaluate(paper, runs, analyses)


def facts(cfg: DictConfig, dataset: str) -> pd.DataFrame:
    """Return the sizes of a prepared data set, from its manifest, as rows like those of a run; draws are its splits."""
    stated = manifest.read("dataset", dataset)
    counts = {"features": np.prod(stated["features"]), "rows_train": stated["rows"]["train"]}
    counts |= {"rows": sum(stated["rows"].values()), "draws": stated.get("draws", 1)}
    fixed = {"experiment": "data", "dataset": dataset, "method": "data", "variant": "", "seed": 0}
    return pd.DataFrame([{**fixed, "metric": name, "value": float(value)} for name, value in counts.items()])


def runs_of(names: Mapping[str, str | None], cfg: DictConfig) -> dict[str, pd.DataFrame]:
    """Return name -> runs, without those whose value is a text if they are missing or of another pipeline."""
    frames = {}
    for name, missing in names.items():
        if missing is not None and name.partition("/")[0] not in cfg.experiment:
            continue
        try:
            frames[name] = read.read_runs(read.of_experiment(name, cfg))
        except FileNotFoundError:
            if missing is None:
                raise
    return frames


def page(cfg: DictConfig) -> None:
    """Write all pages of the report, and remove every other file from its folder."""
    files.write(RESULTS / "report", pages(cfg), only=True)


def readme(cfg: DictConfig) -> None:
    """Write the findings of conf/report/findings.yaml into README.md."""
    findings = content("report", "findings", cfg)["findings"]
    rows = read.read_claims(RESULTS / "claims.csv").set_index("id")
    README.write_text(in_readme(README.read_text("utf-8"), findings, rows), "utf-8")


@stage
def main(cfg: DictConfig, what: str) -> None:
    """Write what the command line says."""
    parts = {"claims": claims, "page": page, "readme": readme}
    parts[one_of(parts, what, "part")](cfg)


if __name__ == "__main__":
    sys.exit(main())
