"""Speed and memory of this project against its peers: python benchmarks/bench.py [--only NAME] [--write].

Every benchmark runs in a process of its own with a pinned number of threads; README.md says what each row means.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from machine import cores, describe
from measure import Options, Row, isolated, table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
BENCHMARKS = (
    *("objpert", "dp_sgld", "kernels", "grid", "sampler", "calibration", "composition", "attack"),
    *("networks", "extraction", "softmax_heads", "noop"),
)
BUSY = 0.5  # load average; above it a warning
PINS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def rows(name: str, options: Options) -> list[Row]:
    """The rows of one benchmark: `rows` of the module of that name."""
    found: list[Row] = importlib.import_module(name).rows(options)
    return found


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").split("\n")[0])
    threads = os.environ.get("OMP_NUM_THREADS") or cores()
    parser.add_argument("--only", choices=BENCHMARKS, help="run one benchmark")
    parser.add_argument(
        "--full", action="store_true", help="all scipy solves, nothing extrapolated (minutes)"
    )
    parser.add_argument(
        "--write", action="store_true", help="also write benchmarks/results.md, or NAME.md with --only NAME"
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="repetitions that a median is taken of (default: 5)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=int(threads),
        help="of torch and BLAS, on both sides of a ratio (default: OMP_NUM_THREADS, else the cores)",
    )
    parser.add_argument(
        "--scale", default="laptop", help="a file of conf/scale/; under smoke the numbers mean nothing"
    )
    args = parser.parse_args(argv)
    if args.runs < 1 or args.threads < 1:
        parser.error(f"--runs {args.runs} and --threads {args.threads} must be 1 or more")
    if args.write and args.scale != "laptop":
        parser.error("--write is for the default scale: leave out --scale")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    os.chdir(ROOT)
    os.environ.update(dict.fromkeys(PINS, str(args.threads)))  # for the processes started below
    if (load := os.getloadavg()[0]) > BUSY:
        print(f"This machine is busy (load {load:.1f}): expect times that are too long.", file=sys.stderr)
    options = Options(args.threads, args.runs, args.full, args.scale)
    found: list[Row] = []
    for name in [args.only] if args.only else BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += isolated(args.threads, rows, name, options)
    text = f"{describe(args.threads, args.scale)}\n\n{table(found)}"
    print(text)
    if args.write:
        made = f"python benchmarks/bench.py --only {args.only}" if args.only else "make bench"
        (FOLDER / f"{args.only or 'results'}.md").write_text(
            f"# Benchmarks\n\nMade by `{made}`; README.md explains the rows.\n\n{text}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
