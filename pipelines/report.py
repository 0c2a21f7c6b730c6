"""Write claims.csv, the pages results/report/, or the findings in README.md: python pipelines/report.py claims."""

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

RESULTS, README = Path("results"), Path("README.md")


def table(name: str, cfg: DictConfig) -> pd.DataFrame:
    """Return the claims of one paper with our numbers and a verdict."""
    paper = content("claim", name, cfg)
    runs = {
        folder: read.read_runs(read.of_experiment(folder, cfg))
        for folder, missing in paper.get("runs", {}).items()
        if missing is None or folder.partition("/")[0] in cfg.experiment
    }
    if paper.get("data"):
        runs["data"] = pd.concat(map(facts, paper["data"]))
    return evaluate(paper, runs, {each: read.read_analysis(each) for each in paper.get("analyses", ())})


def facts(dataset: str) -> pd.DataFrame:
    """Return the sizes of a prepared data set, from its manifest, as rows like those of a run; draws are its splits."""
    stated = manifest.read("dataset", dataset)
    counts = {"features": np.prod(stated["features"]), "rows_train": stated["rows"]["train"]}
    counts |= {"rows": sum(stated["rows"].values()), "draws": stated.get("draws", 1)}
    fixed = {"experiment": "data", "dataset": dataset, "method": "data", "variant": "", "seed": 0}
    return pd.DataFrame([{**fixed, "metric": name, "value": float(value)} for name, value in counts.items()])


@stage
def main(cfg: DictConfig, what: str) -> None:
    """Write what the command line says."""
    one_of(("claims", "page", "readme"), what, "part")
    if what == "claims":
        found = pd.concat([table(name, cfg) for name in cfg.pipeline.papers])
        files.write(RESULTS, {"claims.csv": csv_bytes(found)})
    elif what == "page":
        files.write(RESULTS / "report", pages(cfg), only=True)
    else:
        findings = content("report", "findings", cfg)["findings"]
        rows = read.read_claims(RESULTS / "claims.csv").set_index("id")
        README.write_text(in_readme(README.read_text("utf-8"), findings, rows), "utf-8")
