"""Write results/claims.csv (`claims`), or results/report/claims.md from it (`page`)."""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig
from stage import finish

from dplangevin import cache, manifest
from dplangevin.claims.table import evaluate
from dplangevin.config import content, load
from dplangevin.exhibits import read, tables

RESULTS = Path("results")


def claims(cfg: DictConfig) -> None:
    parts = []
    for name in cfg.pipeline.papers:
        paper = content("claim", name, cfg)
        analyses = {name: read.read_analysis(name) for name in paper.get("analyses", ())}
        runs = pd.DataFrame()
        if "runs" in paper:
            runs = read.read_runs(paper["runs"])
            runs = pd.concat([runs, *(facts(cfg, dataset) for dataset in paper["data"])], ignore_index=True)
        training = found(paper.get("training", {}), partial(training_runs, cfg))
        heads = found(paper.get("heads", {}), lambda name: read.read_heads([name]))
        finetune = found(paper.get("finetune", {}), lambda name: read.read_finetune([name]))
        parts.append(evaluate(paper, runs, analyses, training, heads, finetune))
    cache.write(RESULTS, {"claims.csv": cache.csv_bytes(pd.concat(parts))})


def facts(cfg: DictConfig, dataset: str) -> pd.DataFrame:
    """What a prepared data set is by its manifest, as rows like those of a run: features, rows_train and rows."""
    stated = manifest.read(cfg, "dataset", dataset)
    train, test = stated["rows"]["train"], stated["rows"]["test"]
    counts = {"features": stated["features"], "rows_train": train, "rows": train + test}
    fixed = {"experiment": "data", "dataset": dataset, "method": "data", "variant": "", "repeat": 0}
    return pd.DataFrame([{**fixed, "metric": name, "value": float(value)} for name, value in counts.items()])


def training_runs(cfg: DictConfig, experiment: str) -> pd.DataFrame:
    return read.read_training(experiment, cfg.training[experiment].runs)


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


def page() -> None:
    """The claims for reading."""
    text = tables.claims_page(read.read_claims(RESULTS / "claims.csv"))
    cache.write(RESULTS / "report", {"claims.md": text.encode()})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["claims", "page"])
    what = parser.parse_args().what
    return finish(lambda: claims(load()) if what == "claims" else page())


if __name__ == "__main__":
    sys.exit(main())
