"""Render one exhibit: python pipelines/render.py wang2015_fig1c, to results/exhibits/ID/ID.{png,pdf,csv}.

A second figure has the proven ε on its axis, if `proven` of the exhibit is its title; a `table` is ID.md.
"""

from functools import partial
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
function = partial(instantiate, _partial_=True, _convert_="all")


def read(exhibit: dict[str, Any], cfg: DictConfig) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the data that an exhibit is drawn from, and the numbers of its CSV file.

    An analysis and training curves (`weights`) give one table for both. Runs give the rows of `runs` (default: all)
    that `read_<part>` reads, in the order of `methods`, and their summary, or else `numbers`.
    """
    source = Path(exhibit["source"])
    if source.suffix:
        frame = numbers = results.read_analysis(source.stem, source.parent)
    elif "weights" in exhibit:
        frame = numbers = results.read_training(exhibit["weights"], source)
    else:
        read_part = getattr(results, f"read_{exhibit.get('part', 'runs')}")
        frame = read_part(results.folders(exhibit, cfg), exhibit.get("runs", ()))
        if "methods" in exhibit:
            frame = sort_by(frame, method=exhibit["methods"])
        numbers = function(exhibit["numbers"])(frame) if "numbers" in exhibit else summary(frame)
    return frame, numbers


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Write the figures, the numbers and the table of an exhibit."""
    exhibit = content("exhibit", name, cfg)
    frame, numbers = read(exhibit, cfg)
    draw = function(exhibit["draw"], title=exhibit["title"])
    figures = {name: draw(frame)}
    if exhibit.get("proven"):
        figures[f"{name}_proven"] = draw(frame, proven=True, title=exhibit["proven"])
    contents = {f"{name}.csv": csv_bytes(numbers)}
    for stem, figure in figures.items():
        contents |= {f"{stem}.{kind}": image_bytes(figure, kind) for kind in ("png", "pdf")}
    if "table" in exhibit:
        contents[f"{name}.md"] = function(exhibit["table"], title=exhibit["title"])(frame).encode()
    files.write(EXHIBITS / name, contents, only=True)
