"""Prices of trained networks again, from the settings in their rows: no training, and no other column is touched.

After a change of an accountant, `python pipelines/reprice.py` rewrites the price columns of results/training and
results/finetune and prints the largest relative move in each file. Each unit gets the key of the code as it now is, so
that nothing is trained again: it takes your word that only accountants have changed, and says so. `dvc commit` then
enters the files.
"""

import json
import math
import sys
from itertools import accumulate, pairwise
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from dplangevin import config, manifest
from dplangevin.cache import beside, csv_bytes, listing, write
from dplangevin.finetune import run
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import Schedule, steps_event
from dplangevin.training import sweep
from dplangevin.training.prices import Prices
from dplangevin.training.tables import TABLES

PRICED = "epsilon_add_remove", "epsilon_replace_one"


def training(folder: Path, schedule: Schedule, records: int) -> float:
    """`final.csv` and `curve.csv` of one run; the largest relative move."""
    frames = {name: read(folder / f"{name}.csv") for name in ("final", "curve")}
    final, curve = frames["final"], frames["curve"]
    if not final.noise_multiplier.notna().any() or final.method.iloc[0] == "pate":
        return 0.0  # without privacy, or in closed form
    settings = final.drop_duplicates("epsilon").set_index("epsilon")
    moved = 0.0
    for label, row in settings.iterrows():
        epsilon = float(str(label))
        rate = row.batch / records
        prices = Prices(row.noise_multiplier, rate, row.delta, schedule)
        whole = math.floor(records * row.epochs / row.batch)
        moved = max(moved, put(final, final.epsilon.eq(epsilon), prices.after(whole)))
        for epoch in curve.epoch[curve.epsilon.eq(epsilon)].unique():
            rows = curve.epsilon.eq(epsilon) & curve.epoch.eq(epoch)
            moved = max(moved, put(curve, rows, prices.after(round(epoch * records / row.batch))))
    write(folder, {f"{name}.csv": csv_bytes(frame) for name, frame in frames.items()})
    return moved


def finetune(path: Path, records: int) -> float:
    """One file of results/finetune; the largest relative move."""
    frame = read(path)
    if not frame.noise_multiplier.gt(0).any():
        return 0.0
    row = frame.iloc[0]
    event = steps_event(
        row.noise_multiplier, rate=row.batch / records, steps=int(row.steps), schedule="fixed"
    )
    columns = {"epsilon_tight": "replace_one", "epsilon_tight_add_remove": "add_remove"}
    found = {column: Tight().epsilon(event, row.delta, kind) for column, kind in columns.items()}  # type: ignore[arg-type]
    moved = put(frame, frame.seed.notna(), found)
    write(path.parent, {path.name: csv_bytes(frame)})
    return moved


def put(frame: pd.DataFrame, rows: pd.Series, prices: dict[str, float]) -> float:
    """Write prices into `rows`; the largest relative move."""
    moved = 0.0
    for column, price in prices.items():
        moved = max(moved, float((frame.loc[rows, column] / price - 1).abs().max()))
        frame.loc[rows, column] = price
    return moved


def relist(path: Path, keys: list[str]) -> None:
    """Give the units of a result, whose rows are as many as before, these keys."""
    units = json.loads(beside(path).read_text(encoding="utf-8"))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    ends = list(accumulate(unit["rows"] for unit in units))
    texts = ["".join(lines[start:end]) for start, end in pairwise([0, *ends])]
    write(path.parent, {beside(path).name: listing(keys, texts).encode()})


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(
        path, keep_default_na=False, na_values={"noise_multiplier": [""], "step": [""], "clip": [""]}
    )


def records(cfg: DictConfig, dataset: str) -> int:
    """Training rows, by the manifest."""
    return int(manifest.read(cfg, "dataset", dataset)["rows"]["train"])


def main() -> int:
    cfg, moves = config.load(), {}
    for experiment, entry in cfg.training.items():
        for name in entry.runs:
            folder = Path("results/training", str(experiment), str(name))
            if folder.exists():
                schedule = entry.runs[name].settings.get("schedule", "fixed")
                moves[folder] = training(folder, schedule, records(cfg, entry.dataset))
                data = manifest.file(cfg, "dataset", entry.dataset).sha256
                keys = sweep.keys_of(cfg, str(experiment), str(name), data)
                for table in TABLES:
                    relist(folder / f"{table}.csv", keys)
    for name, entry in cfg.finetune.items():
        path = Path("results/finetune", f"{name}.csv")
        if path.exists():
            moves[path] = finetune(path, records(cfg, entry.dataset))
            data, weights = (
                manifest.file(cfg, kind, entry[of]).sha256
                for kind, of in (("dataset", "dataset"), ("weights", "backbone"))
            )
            relist(path, [run.keys(cfg, str(name), data, weights)[1]])
    for path, moved in moves.items():
        print(f"{path}: prices moved by at most {moved:.2g}")
    print("Scores were taken over as they are: run this only where nothing that trains has changed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
