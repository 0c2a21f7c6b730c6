"""Stands in for every script of pipelines/ that a stage runs: notes that it ran and writes small outputs.

STUB_UNAVAILABLE: data sets that no source has; STUB_FAIL, STUB_HANG: stages that fail, or never end.
"""

import os
import sys
import time
from pathlib import Path

UNAVAILABLE = Path("data/raw/.unavailable")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(script: str, argv: list[str]) -> int:
    stage = os.environ["DVC_STAGE"]
    log = Path("data/ran.log")
    ran = log.read_text().split() if log.exists() else []
    write(log, "\n".join([*ran, stage, ""]))
    if stage in os.environ.get("STUB_FAIL", "").split():
        return 1
    if stage in os.environ.get("STUB_HANG", "").split():
        time.sleep(600)
    new = f"{stage} {time.time_ns()}\n"  # a run's result differs from the one before
    match script, argv:
        case "fetch", [dataset]:
            if dataset in os.environ.get("STUB_UNAVAILABLE", "").split():
                write(UNAVAILABLE / f"{dataset}.txt", f"{dataset}: no source has it\n  set DATA_MIRROR\n")
                return 69
            (UNAVAILABLE / f"{dataset}.txt").unlink(missing_ok=True)
            write(Path("data/raw") / dataset / "file", dataset)
        case "fetch", ["--weights", key]:
            write(Path("data/weights") / f"{key}.npz", key)
        case "pretrain", [backbone]:
            write(Path("data/weights") / f"{backbone}.npz", backbone)
        case "features", [key]:
            write(Path("data/features") / f"{key}.npz", key)
        case "prepare", [dataset]:
            assert (Path("data/raw") / dataset / "file").exists()
            write(Path("data/processed") / f"{dataset}.npz", dataset)
        case "reference", [dataset]:
            assert (Path("data/processed") / f"{dataset}.npz").exists()
            write(Path("data/reference") / f"{dataset}.npz", dataset)
        case "run", [experiment, dataset, method]:
            assert (Path("data/processed") / f"{dataset}.npz").exists()
            write(Path("results/runs") / experiment / dataset / f"{method}.csv", new)
        case "train", [experiment, run]:
            write(Path("results/training") / experiment / run / "final.csv", new)
        case "heads" | "finetune", [key]:
            write(Path("results") / script / f"{key}.csv", new)
        case "analyse", [name]:
            write(Path("results/analyses") / f"{name}.csv", new)
        case "render", [exhibit]:
            write(Path("results/exhibits") / exhibit / f"{exhibit}.png", new)
        case "report", ["claims"]:
            figure = "results/exhibits/wang2015_fig1a/wang2015_fig1a.csv"
            write(Path("results/claims.csv"), f"id,verdict,evidence\nfirst,reproduced,{figure}\n")
        case "report", ["metrics"]:
            write(Path("results/report/metrics.json"), "{}\n")
            write(Path("results/report/claims.md"), new)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).stem, sys.argv[1:]))
