"""Render one exhibit: results/exhibits/<id>/<id>.{png,pdf,csv}, its twin on the audited axis where the
exhibit asks for it, and the table <id>.md where it has one.

python pipelines/render.py wang2015_fig1c
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from dplangevin import outputs
from dplangevin.config import load
from dplangevin.exhibits import files, head_files
from dplangevin.exhibits.tables import summary

EXHIBITS = Path("results/exhibits")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("id", help="a key of conf/exhibit")
    name = parser.parse_args().id
    cfg = load()
    if name not in cfg.exhibit:
        print(f"no exhibit {name!r}: conf/exhibit has {', '.join(cfg.exhibit)}", file=sys.stderr)
        return 1
    exhibit = cfg.exhibit[name]
    try:
        frame, numbers = read(exhibit, cfg)
    except FileNotFoundError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    draw = instantiate(exhibit.draw, _partial_=True, _convert_="all", title=exhibit.title)
    figures = {name: draw(frame)}
    if exhibit.get("audited"):
        figures[f"{name}_audited"] = draw(frame, audited=True)
    contents = {f"{name}.csv": outputs.csv_bytes(numbers)}
    for stem, figure in figures.items():
        contents |= {f"{stem}.{kind}": files.image_bytes(figure, kind) for kind in ("png", "pdf")}
    if "table" in exhibit:
        page = instantiate(exhibit.table, _partial_=True, _convert_="all", title=exhibit.title)
        contents[f"{name}.md"] = page(frame).encode()
    outputs.write(EXHIBITS / name, contents, only=True)
    return 0


def read(exhibit: DictConfig, cfg: DictConfig) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the exhibit is drawn from, and the numbers behind it: an analysis is both, runs (or one `part` of
    training runs, or runs on features or of fine-tuning) are summarised, in the way that `numbers` of the exhibit
    says if it has one."""
    if exhibit.source.endswith(".csv"):
        frame = files.read_analysis(Path(exhibit.source).stem)
        return frame, frame
    if "part" in exhibit:
        runs = files.read_training(Path(exhibit.source).name, exhibit.runs, exhibit.part)
    elif "heads" in exhibit:
        runs = head_files.read_heads(exhibit.heads)
    elif "finetune" in exhibit:
        runs = head_files.read_finetune(exhibit.finetune)
    else:
        runs = files.read_runs(files.run_names(exhibit), files.composites(cfg.experiment))
    if "timings" in exhibit:
        runs = pd.concat([runs, files.read_timings(Path(exhibit.timings))], ignore_index=True)
    numbers = (
        instantiate(exhibit.numbers, _partial_=True, _convert_="all") if "numbers" in exhibit else summary
    )
    return runs, numbers(runs)


if __name__ == "__main__":
    sys.exit(main())
