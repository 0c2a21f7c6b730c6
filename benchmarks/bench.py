"""Speed and memory of this project against its peers: python benchmarks/bench.py [--only NAME] [--write].

Every benchmark runs in a process of its own with a pinned number of threads. benchmarks/README.md explains the rows.
"""

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from functools import partial

from measure import ROOT, Options, Row, arguments, describe, isolated, table, timed

BENCHMARKS = "objpert", "chains", "composition", "networks", "noop", "watched"
FILE = ROOT / "benchmarks/results.md"
TITLE = "# Benchmarks\n\nMade by `python benchmarks/bench.py --write`; README.md beside this file explains the rows.\n"


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
        "--write", action="store_true", help="also write benchmarks/results.md, each part when it is done"
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="repetitions that a median is taken of (default: 5)"
    )
    args = arguments(parser, argv)
    options = Options(args.threads, args.runs, args.full, args.scale)
    for name in [args.only] if args.only else BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found, taken = timed(partial(isolated, args.threads, rows, name, options))
        text = f"{describe(args.threads, args.scale)}\nThis part took {taken:.0f} s.\n\n{table(found)}\n"
        print(f"## {name}\n\n{text}", flush=True)
        if args.write:
            FILE.write_text(replaced(FILE.read_text() if FILE.exists() else "", name, text))
    return 0


def replaced(page: str, name: str, text: str) -> str:
    """The page of results with another part of that name."""
    parts = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=\n## |\Z)", page, re.MULTILINE | re.DOTALL)) | {name: text}
    return "\n".join([TITLE, *(f"## {each}\n\n{parts[each]}" for each in BENCHMARKS if each in parts)])


if __name__ == "__main__":
    sys.exit(main())
