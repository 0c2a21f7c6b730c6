"""Render one exhibit: results/exhibits/<id>/<id>.{png,pdf,csv}, and its twin on the audited axis where the
exhibit asks for it.

python pipelines/render.py wang2015_fig1c
"""

import argparse
import sys
from pathlib import Path

from hydra.utils import instantiate

from dplangevin.config import load
from dplangevin.exhibits import files
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
        runs = files.read_runs(files.run_names(exhibit), files.composites(cfg.experiment))
    except FileNotFoundError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    draw = instantiate(exhibit.draw, _partial_=True, _convert_="all", title=exhibit.title)
    figures = {name: draw(runs)}
    if exhibit.get("audited"):
        figures[f"{name}_audited"] = draw(runs, audited=True)
    contents = {f"{name}.csv": files.csv_bytes(summary(runs))}
    for stem, figure in figures.items():
        contents |= {f"{stem}.{kind}": files.image_bytes(figure, kind) for kind in ("png", "pdf")}
    files.write(EXHIBITS / name, contents, only=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
