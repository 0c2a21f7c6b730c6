"""Wall time of every method at 3 budgets: python benchmarks/methods.py.

Only the call of the method is timed (noise for the promised epsilon, fit or sampling), with the settings of
`compare` at eps = .1, 1 and 10; not the data, the pricing and the test. The prepared data must be there (`make repro`).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from statistics import median

import pandas as pd
from hydra.utils import instantiate
from measure import ROOT, arguments, describe, isolated, seconds

from dplangevin import random
from dplangevin.data import Dataset
from dplangevin.methods import released
from dplangevin.pipeline.config import compose
from dplangevin.pipeline.plan import delta as delta_of
from dplangevin.pipeline.plan import method_config
from dplangevin.privacy import Budget

RESULTS = ROOT / "benchmarks/methods.csv"
EXPERIMENT = "compare"
EPSILONS = (0.1, 1.0, 10.0)
SLOW = 30.0  # seconds; a method that takes longer is run once
COLUMNS = ["experiment", "dataset", "method", "seconds", "runs"]


def one(dataset: str, method: str, runs: int, scale: str) -> tuple[float, int]:
    """Median seconds of a call and how many calls it is taken of; the first, which warms up, counts only if slow."""
    cfg = compose([f"scale={scale}"])
    spec = cfg.experiment[EXPERIMENT]
    repeats = cfg.repeats
    data = Dataset.load(ROOT / f"data/processed/{dataset}.npz").scaled(spec.scalings[0])
    problem = instantiate(cfg.problem[spec.problem])(data, repeats)
    delta = delta_of(cfg, spec, problem.facts.n)
    learner = instantiate(method_config(cfg, spec, method))
    budgets = [Budget(epsilon, delta) for epsilon in (EPSILONS if learner.budgeted else [float("inf")])]

    def call() -> None:
        released(learner, problem, budgets, repeats, random.generator(cfg.seed, f"{dataset}/{method}"))

    first = seconds(call)
    if first > SLOW or runs == 1:
        return first, 1
    return median(seconds(call) for _ in range(runs)), runs


def measured(
    datasets: Sequence[str], methods: Sequence[str], runs: int, threads: int, scale: str
) -> Iterator[dict[str, str | float | int]]:
    """One row per data set and method that runs on it, each measured in a process of its own."""
    for dataset in datasets:
        for method in methods:
            time, count = isolated(threads, one, dataset, method, runs, scale)
            print(f"{dataset:12} {method:16} {time:9.2f} s, {count} runs", file=sys.stderr, flush=True)
            yield {
                "experiment": EXPERIMENT,
                "dataset": dataset,
                "method": method,
                "seconds": round(time, 3),
                "runs": count,
            }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--datasets", nargs="+", help="default: those of the experiment")
    parser.add_argument("--methods", nargs="+", help="default: those of the experiment")
    parser.add_argument(
        "--runs", type=int, default=3, help=f"calls of a method below {SLOW:g} s (default: 3)"
    )
    parser.add_argument("--write", action="store_true", help=f"also write {RESULTS.relative_to(ROOT)}")
    args = arguments(parser, argv)
    spec = compose([f"scale={args.scale}"]).experiment[EXPERIMENT]
    methods = args.methods or [*spec.methods]
    datasets = args.datasets or [*spec.datasets]
    rows = measured(datasets, methods, args.runs, args.threads, args.scale)
    table = pd.DataFrame(rows, columns=COLUMNS)
    print(f"{describe(args.threads, args.scale)}\n")
    print(table.pivot(index="method", columns="dataset", values="seconds").reindex(methods).to_string())
    if args.write:
        table = table.assign(machine=describe(args.threads, args.scale).replace("\n", " "))
        if RESULTS.exists():  # rows that were not measured now stay
            both = pd.concat([pd.read_csv(RESULTS), table])
            table = both.drop_duplicates(COLUMNS[:3], keep="last")
        table.to_csv(RESULTS, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
