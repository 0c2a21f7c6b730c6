"""Write results/claims.csv (`claims`), or results/report/metrics.json and claims.md (`metrics`)."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from dplangevin import outputs
from dplangevin.claims.table import evaluate
from dplangevin.config import load
from dplangevin.data import DataError
from dplangevin.exhibits import files, head_files, tables

RESULTS = Path("results")


def claims(cfg: DictConfig) -> None:
    parts = []
    for paper in cfg.claim.values():
        analyses = {name: files.read_analysis(name) for name in paper.get("analyses", ())}
        runs = pd.DataFrame()
        if "runs" in paper:
            runs = files.read_runs(paper.runs, files.composites(cfg.experiment))
            runs = pd.concat([runs, files.read_facts(paper.data)], ignore_index=True)
        training = found(paper.get("training", {}), partial(training_runs, cfg))
        heads = found(paper.get("heads", {}), lambda name: head_files.read_heads([name]))
        finetune = found(paper.get("finetune", {}), lambda name: head_files.read_finetune([name]))
        parts.append(evaluate(paper, runs, analyses, training, heads, finetune))
    outputs.write(RESULTS, {"claims.csv": outputs.csv_bytes(pd.concat(parts))})


def training_runs(cfg: DictConfig, experiment: str) -> pd.DataFrame:
    return files.read_training(experiment, cfg.training[experiment].runs)


def found(sources: Mapping[str, str | None], read: Callable[[str], pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What `read` makes of each source; one with a text may be missing, in whole or in part, and is then left out."""
    frames = {}
    for name, missing in sources.items():
        try:
            frames[name] = read(name)
        except FileNotFoundError:
            if missing is None:
                raise
    return frames


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
