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
        names = subprocess.check_output(command, cwd=root, text=True).splitlines()
        paths = [root / name for name in names if name.endswith(CODE if unit == "lines" else ".md")]
        texts = [path.read_text() for path in paths if path.is_file()]
        size = sum(text.count("\n") if unit == "lines" else len(text.split()) for text in texts)
        print(f"{what}: {size:,} of {ceiling:,}{' ABOVE ITS CEILING: take something out' * (size > ceiling)}")
        status |= size > ceiling
    return status


if __name__ == "__main__":
    sys.exit(main(Path()))
