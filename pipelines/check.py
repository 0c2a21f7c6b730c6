"""Stage config: `python -m dplangevin.config --check`, as a stage."""

import sys

from stage import stage

from dplangevin import config


@stage
def main() -> None:
    if status := config.main(["--check"]):
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main())
