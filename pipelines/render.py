"""Render one exhibit: results/exhibits/<id>/<id>.{png,pdf,csv}, and the table <id>.md where it has one.

A second figure has the proven ε on its axis, if `proven` of the exhibit is its title.

python pipelines/render.py wang2015_fig1c
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from stage import stage

from dplangevin import files
from dplangevin.papers.statistics import sort_by, summary
from dplangevin.pipeline.config import content
from dplangevin.reporting import read as results
from dplangevin.reporting.style import image_bytes
from dplangevin.text import csv_bytes

EXHIBITS = Path("results/exhibits")
PARTS = {
    "runs": results.read_runs,
    "seeds": results.read_seeds,
    "curve": results.read_curve,
    "reliability": results.read_reliability,
    "samples": results.read_samples,
}


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Write the figures, the numbers and the table of an exhibit."""
    exhibit = content("exhibit", name, cfg)
    frame, numbers = read(exhibit, cfg)
    draw = instantiate(exhibit["draw"], _partial_=True, _convert_="all", title=exhibit["title"])
    figures = {name: draw(frame)}
    if exhibit.get("proven"):
        figures[f"{name}_proven"] = draw(frame, proven=True, title=exhibit["proven"])
    contents = {f"{name}.csv": csv_bytes(numbers)}
    for stem, figure in figures.items():
        contents |= {f"{stem}.{kind}": image_bytes(figure, kind) for kind in ("png", "pdf")}
    if "table" in exhibit:
        page = instantiate(exhibit["table"], _partial_=True, _convert_="all", title=exhibit["title"])
        contents[f"{name}.md"] = page(frame).encode()
    files.write(EXHIBITS / name, contents, only=True)


def read(exhibit: dict[str, Any], cfg: DictConfig) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the data that an exhibit is drawn from, and the numbers behind it.

    For an analysis, with those that `beside` names, and for training curves (`weights`), both are the same table.
    Otherwise the first is the rows of the exhibit's `runs` (default: all) in its folders, read as `part` says,
    `methods` first. The second is their summary, or what `numbers` of the exhibit makes of them.
    """
    if exhibit["source"].endswith(".csv"):
        path = Path(exhibit["source"])
        names = path.stem, *exhibit.get("beside", ())
        frame = pd.concat([results.read_analysis(name, path.parent) for name in names], ignore_index=True)
        return frame, frame
    if "weights" in exhibit:
        frame = results.read_training(exhibit["weights"], Path(exhibit["source"]))
        return frame, frame
    runs = PARTS[exhibit.get("part", "runs")](results.folders(exhibit, cfg), exhibit.get("runs", ()))
    if "methods" in exhibit:
        runs = sort_by(runs, method=exhibit["methods"])
    if "numbers" in exhibit:
        return runs, instantiate(exhibit["numbers"], _partial_=True, _convert_="all")(runs)
    return runs, summary(runs)


if __name__ == "__main__":
    sys.exit(main())
