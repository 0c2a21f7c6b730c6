"""Speed and memory of this project against its peers: python benchmarks/bench.py [--only NAME] [--write].

Every benchmark runs in a process of its own with a pinned number of threads; docs/speed.md says what each row means.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from machine import describe
from measure import ROOT, Options, Row, arguments, isolated, table

BENCHMARKS = (
    *("objpert", "dp_sgld", "chains", "kernels", "grid", "sampler", "calibration", "composition", "attack"),
    *("networks", "extraction", "softmax_heads", "cluster", "noop"),
)


def rows(name: str, options: Options) -> list[Row]:
    """The rows of one benchmark: `rows` of the module of that name."""
    found: list[Row] = importlib.import_module(name).rows(options)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").split("\n")[0])
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
    args = arguments(parser, argv)
    options = Options(args.threads, args.runs, args.full, args.scale)
    found: list[Row] = []
    for name in [args.only] if args.only else BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += isolated(args.threads, rows, name, options)
    text = f"{describe(args.threads, args.scale)}\n\n{table(found)}"
    print(text)
    if args.write:
        made = f"python benchmarks/bench.py --only {args.only}" if args.only else "make bench"
        (ROOT / "benchmarks" / f"{args.only or 'results'}.md").write_text(
            f"# Benchmarks\n\nMade by `{made}`; docs/speed.md explains the rows.\n\n{text}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
