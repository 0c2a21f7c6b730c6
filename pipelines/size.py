"""Print how large the project is, and fail above the ceilings of pyproject.toml, which only fall: `make lint`."""

import subprocess
import sys
import tomllib
from pathlib import Path

CODE = (".py", ".yaml", ".yml", ".html", ".css", ".js", ".sh")
PLACES = {
    "src and pipelines, lines": ["src", "pipelines"],
    "tests, lines": ["tests"],
    "docs, words": ["docs"],
    "README, words": ["README.md"],
}


def size(root: Path, what: str) -> int:
    """Return the lines of code, or the words of pages, that git has in the places of an entry of PLACES."""
    names = subprocess.run(
        ["git", "ls-files", *PLACES[what]], cwd=root, capture_output=True, text=True, check=True
    )
    written = [name for name in names.stdout.splitlines() if not name.startswith("docs/audits/")]
    paths = [root / name for name in written if (root / name).is_file()]
    if what.endswith("words"):
        return sum(len(path.read_text().split()) for path in paths if path.suffix == ".md")
    return sum(path.read_bytes().count(b"\n") for path in paths if path.suffix in CODE)


def main(root: Path) -> int:
    """Print the sizes of a repository; return the exit status."""
    ceilings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["dplangevin"]["ceilings"]
    found = {what: size(root, what) for what in PLACES}
    for what, number in found.items():
        above = " ABOVE ITS CEILING: take something out" * (number > ceilings[what])
        print(f"{what}: {number:,} of {ceilings[what]:,}{above}")
    return int(any(number > ceilings[what] for what, number in found.items()))


if __name__ == "__main__":
    sys.exit(main(Path()))
