"""Print how large the project is, and fail above the ceilings of pyproject.toml, which only fall: `make lint`."""

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

CODE = {".py", ".yaml", ".yml", ".html", ".css", ".js", ".sh"}
SCRIPTS = {"Makefile", "Containerfile", "run"}
GENERATED = ("results/", "params.yaml", "docs/audits/")  # docs/audits: by benchmarks/audits.py
COLUMNS = ("src", "pipelines", "tests", "conf", "benchmarks", "docs")


def sizes(root: Path) -> tuple[Counter[str], dict[str, int]]:
    """Return the lines of code in each folder, and what has a ceiling, by the names in pyproject.toml."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True)
    lines, words = Counter(dict.fromkeys(COLUMNS, 0)), Counter[str]()
    for name in listed.stdout.splitlines():
        path = root / name
        if name.startswith(GENERATED) or not path.is_file():
            continue
        if path.suffix in CODE or path.name in SCRIPTS:
            folder = name.partition("/")[0]
            lines[folder if folder in COLUMNS else "other"] += path.read_bytes().count(b"\n")
        elif path.suffix == ".md":
            words["README" if name == "README.md" else name.partition("/")[0]] += len(
                path.read_text().split()
            )
    found = {"src and pipelines, lines": lines["src"] + lines["pipelines"], "tests, lines": lines["tests"]}
    return lines, {**found, "docs, words": words["docs"], "README, words": words["README"]}


def main(root: Path) -> int:
    """Print the sizes of a repository; return the exit status."""
    lines, found = sizes(root)
    ceilings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["dplangevin"]["ceilings"]
    print("lines: " + ", ".join(f"{folder} {number:,}" for folder, number in lines.items()))
    for name, number in found.items():
        above = number > ceilings[name]
        print(f"{name}: {number:,} of {ceilings[name]:,}" + " ABOVE ITS CEILING: take something out" * above)
    return int(any(number > ceilings[name] for name, number in found.items()))


if __name__ == "__main__":
    sys.exit(main(Path()))
