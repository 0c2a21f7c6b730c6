"""Stage config: run `python -m dplangevin.pipeline.config --check`."""

import sys

from stage import stage

from dplangevin.pipeline import config


@stage
def main() -> None:
    """Check params.yaml; exit with the status of the check if it fails."""
    if status := config.main(["--check"]):
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main())
