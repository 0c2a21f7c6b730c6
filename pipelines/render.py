"""Render one exhibit: python pipelines/render.py wang2015_fig1c, to results/exhibits/ID/ID.{png,pdf,csv}.

A second figure has the proven ε on its axis, if `proven` of the exhibit is its title; a `table` is ID.md.
"""

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


def read(exhibit: dict[str, Any], cfg: DictConfig) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the data that an exhibit is drawn from, and the numbers of its CSV file.

    An analysis, with those `beside` it, and training curves (`weights`) give one table for both. Runs give the rows of
    `runs` (default: all) that `read_<part>` reads, in the order of `methods`, and their summary, or else `numbers`.
    """
    if exhibit["source"].endswith(".csv"):
        path = Path(exhibit["source"])
        names = path.stem, *exhibit.get("beside", ())
        frame = pd.concat([results.read_analysis(name, path.parent) for name in names], ignore_index=True)
        return frame, frame
    if "weights" in exhibit:
        frame = results.read_training(exhibit["weights"], Path(exhibit["source"]))
        return frame, frame
    read_part = getattr(results, f"read_{exhibit.get('part', 'runs')}")
    runs = read_part(results.folders(exhibit, cfg), exhibit.get("runs", ()))
    if "methods" in exhibit:
        runs = sort_by(runs, method=exhibit["methods"])
    if "numbers" in exhibit:
        return runs, instantiate(exhibit["numbers"], _partial_=True, _convert_="all")(runs)
    return runs, summary(runs)


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
