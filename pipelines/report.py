"""Write results/claims.csv (`claims`), or results/report/metrics.json and claims.md (`metrics`)."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from dplangevin import outputs
from dplangevin.claims.table import evaluate
from dplangevin.config import load
from dplangevin.data import DataError
from dplangevin.exhibits import files, tables

RESULTS = Path("results")


def claims(cfg: DictConfig) -> None:
    parts = []
    for paper in cfg.claim.values():
        analyses = {name: files.read_analysis(name) for name in paper.get("analyses", ())}
        runs = pd.DataFrame()
        if "runs" in paper:
            runs = files.read_runs(paper.runs, files.composites(cfg.experiment))
            runs = pd.concat([runs, files.read_facts(paper.data)], ignore_index=True)
        parts.append(evaluate(paper, runs, analyses, trained(paper.get("training", {}), cfg)))
    outputs.write(RESULTS, {"claims.csv": outputs.csv_bytes(pd.concat(parts))})


def trained(experiments: Mapping[str, str | None], cfg: DictConfig) -> dict[str, pd.DataFrame]:
    """The runs of training experiments; one with a text may be missing, in whole or in part, and is then left out."""
    found = {}
    for name, missing in experiments.items():
        try:
            found[name] = files.read_training(name, cfg.training[name].runs)
        except FileNotFoundError:
            if missing is None:
                raise
    return found


def metrics() -> None:
    runs = RESULTS / "runs"
    names = sorted(str(path.relative_to(runs).with_suffix("")) for path in runs.glob("*/*/*.csv"))
    nested = tables.metrics(files.read_runs(names))
    page = tables.claims_markdown(files.read_claims(RESULTS / "claims.csv"))
    text = json.dumps(nested, indent=2, sort_keys=True, allow_nan=False) + "\n"
    outputs.write(RESULTS / "report", {"metrics.json": text.encode(), "claims.md": page.encode()})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["claims", "metrics"])
    what = parser.parse_args().what
    try:
        claims(load()) if what == "claims" else metrics()
    except (FileNotFoundError, DataError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
