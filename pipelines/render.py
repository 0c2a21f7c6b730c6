"""Render one exhibit: results/exhibits/<id>/<id>.{png,pdf,csv}, its twin on the audited axis where the
exhibit asks for it, and the table <id>.md where it has one.

python pipelines/render.py wang2015_fig1c
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from stage import stage

from dplangevin import cache
from dplangevin.config import content, load
from dplangevin.exhibits import read as results
from dplangevin.exhibits.style import image_bytes
from dplangevin.statistics import sort_by, summary

EXHIBITS = Path("results/exhibits")
PARTS = {
    "runs": results.read_runs,
    "seeds": results.read_seeds,
    "curve": results.read_curve,
    "reliability": results.read_reliability,
    "samples": results.read_samples,
}


@stage
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("id", help="a file of conf/exhibit")
    render(parser.parse_args().id, load())


def render(name: str, cfg: DictConfig) -> None:
    exhibit = content("exhibit", name, cfg)
    frame, numbers = read(exhibit, cfg)
    draw = instantiate(exhibit["draw"], _partial_=True, _convert_="all", title=exhibit["title"])
    figures = {name: draw(frame)}
    if exhibit.get("audited"):
        figures[f"{name}_audited"] = draw(frame, audited=True)
    contents = {f"{name}.csv": cache.csv_bytes(numbers)}
    for stem, figure in figures.items():
        contents |= {f"{stem}.{kind}": image_bytes(figure, kind) for kind in ("png", "pdf")}
    if "table" in exhibit:
        page = instantiate(exhibit["table"], _partial_=True, _convert_="all", title=exhibit["title"])
        contents[f"{name}.md"] = page(frame).encode()
    cache.write(EXHIBITS / name, contents, only=True)


def read(exhibit: dict[str, Any], cfg: DictConfig) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the exhibit is drawn from, and the numbers behind it: an analysis, and curves of `weights`, are both; the
    `runs` (or all) of its folders, read as `part` says, are summarised in the way that `numbers` of the exhibit says if
    it has one. `methods` come first, in this order."""
    if exhibit["source"].endswith(".csv"):
        frame = results.read_analysis(Path(exhibit["source"]).stem)
        return frame, frame
    if "weights" in exhibit:
        frame = results.read_training(exhibit["weights"], Path(exhibit["source"]))
        return frame, frame
    runs = PARTS[exhibit.get("part", "runs")](results.folders(exhibit, cfg), exhibit.get("runs", ()))
    if "methods" in exhibit:
        runs = sort_by(runs, method=exhibit["methods"])
    if "timings" in exhibit:
        runs = pd.concat([runs, results.read_timings(Path(exhibit["timings"]))], ignore_index=True)
    numbers = (
        instantiate(exhibit["numbers"], _partial_=True, _convert_="all") if "numbers" in exhibit else summary
    )
    return runs, numbers(runs)


if __name__ == "__main__":
    sys.exit(main())
