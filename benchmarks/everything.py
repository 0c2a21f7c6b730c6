"""Where the time of `make repro FORCE=1` goes: python benchmarks/everything.py [PART ...].

Runs the stages of dvc.lock in this checkout, one after the other as DVC does, with everything computed again, and keeps
the wall and processor seconds of each in benchmarks/everything.csv, so that parts can be timed on different days; a
stage that is already there is timed again.  Data must be there, or be had.  benchmarks/everything.md is their sum.
"""

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

import pandas as pd
import yaml
from measure import ROOT, arguments, describe

from dplangevin.pipeline.cache import RECOMPUTE
from dplangevin.pipeline.config import load

RESULTS = ROOT / "benchmarks/everything.csv"
TABLE = ROOT / "benchmarks/everything.md"
PARTS = {
    "data": "data sets, prepared",
    "reference": "exact posteriors by HMC, which samplers are compared with",
    "convex": "runs on Adult, Abalone and synthetic rows",
    "networks": "runs of networks on MNIST and CIFAR-10",
    "pretrain": "AlexNet and ResNet-18, pre-trained on CIFAR-100",
    "features": "features of CIFAR-10 and chest X-rays",
    "heads": "runs on features",
    "analyses": "bounds, promises and quadratures",
    "exhibits": "figures, tables, claims and the report",
}
GROUPS = {
    "prepare": "data",
    "weights": "data",
    "pretrain": "pretrain",
    "features": "features",
    "reference": "reference",
    "analysis": "analyses",
}
IMAGES = "mnist", "cifar10"
MADE = (
    "Made by `python benchmarks/everything.py [PART ...] --write`; docs/speed.md has what is not timed here."
)
COLUMNS = ["part", "stage", "seconds", "processor", "cpu"]


def stages() -> dict[str, tuple[str, str]]:
    """Name of a stage -> its part and its command; parts in the order in which they are needed."""
    cfg = load(ROOT / "params.yaml")
    locked = yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    found = {}
    for name, stage in locked.items():
        group, _, key = name.partition("@")
        part = GROUPS.get(group, "exhibits")
        if group == "run":
            dataset = cfg.pipeline.runs[key].dataset
            part = "heads" if dataset in cfg.features else "networks" if dataset in IMAGES else "convex"
        if group not in ("config", "code"):
            found[name] = part, stage["cmd"]
    order = list(PARTS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[1][0])))


def timed(command: str) -> tuple[float, float]:
    """Wall seconds of a command, and processor seconds of it and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        shlex.split(command), check=True, env={**os.environ, RECOMPUTE: "1", "DPL_PYTHON": sys.executable}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        time.perf_counter() - start,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def table(rows: pd.DataFrame) -> str:
    """Minutes by part, with the stages that take longest."""
    lines = ["| part | stages | minutes | processor minutes | longest | on |", "|---|---:|---:|---:|---|---|"]
    for part, what in PARTS.items():
        own = rows[rows.part == part].sort_values("seconds", ascending=False)
        if len(own):
            first = zip(own.stage.head(3), own.seconds.head(3), strict=True)
            longest = ", ".join(f"{stage} {seconds / 60:.1f}" for stage, seconds in first)
            total = own[["seconds", "processor"]].sum() / 60
            where = ", ".join(sorted({cpu.removeprefix("CPU: ") for cpu in own.cpu}))
            sums = f"{len(own)} | {total.seconds:.1f} | {total.processor:.1f}"
            lines.append(f"| {what} | {sums} | {longest} | {where} |")
    total = rows[["seconds", "processor"]].sum() / 60
    lines.append(f"| **all** | {len(rows)} | {total.seconds:.1f} | {total.processor:.1f} | | |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}, or a regular expression of stages")
    parser.add_argument("--runs", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(ROOT)} too")
    args = arguments(parser, argv)
    everything = stages()
    wanted = [
        name
        for name, (part, _) in everything.items()
        if not args.parts or part in args.parts or any(re.fullmatch(each, name) for each in args.parts)
    ]
    subprocess.run(["sh", "pipelines/python.sh", "pipelines/fingerprint.py"], check=True)
    rows = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=COLUMNS)
    for name in wanted:
        part, command = everything[name]
        wall, processor = timed(command)
        print(f"{name:45} {wall:9.1f} s, {processor:9.1f} s of processor time", file=sys.stderr, flush=True)
        row = [
            part,
            name,
            round(wall, 1),
            round(processor, 1),
            describe(args.threads, args.scale).split(",")[0],
        ]
        rows = pd.concat([rows[rows.stage != name], pd.DataFrame([row], columns=COLUMNS)])
        rows = rows.sort_values(["part", "stage"])
        rows.to_csv(RESULTS, index=False, lineterminator="\n")
    text = table(rows[rows.stage.isin(everything)])
    if args.write:
        TABLE.write_text(
            f"# Where the time goes\n\n{MADE}\n\n{describe(args.threads, args.scale)}\n\n{text}\n",
            encoding="utf-8",
        )
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
