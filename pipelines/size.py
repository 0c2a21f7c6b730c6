"""Print how large the project is, and fail above the ceilings of pyproject.toml, which only fall: `make lint`."""

import subprocess
import sys
import tomllib
from pathlib import Path

CODE = (".py", ".yaml", ".yml", ".html", ".css", ".js", ".sh")


def main(root: Path) -> int:
    """Print the sizes of a repository, each with its ceiling; return the exit status."""
    status = 0
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["dplangevin"]
    for what, ceiling in settings["ceilings"].items():
        places, _, unit = what.partition(", ")
        command = ["git", "ls-files", *places.replace("README", "README.md").split(" and "), ":!docs/audits"]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        paths = [root / name for name in listed.splitlines() if (root / name).is_file()]
        if unit == "lines":
            size = sum(path.read_bytes().count(b"\n") for path in paths if path.suffix in CODE)
        else:
            size = sum(len(path.read_text().split()) for path in paths if path.suffix == ".md")
        above = " ABOVE ITS CEILING: take something out" * (size > ceiling)
        print(f"{what}: {size:,} of {ceiling:,}{above}")
        status |= size > ceiling
    return status


if __name__ == "__main__":
    sys.exit(main(Path()))
