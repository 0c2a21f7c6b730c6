"""Names of scripts and tests.  The import rule is a contract of import-linter in pyproject.toml."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_script_or_test_bears_a_name_of_the_standard_library() -> None:
    """Where their folder comes first on the path, it would be imported in its place, also by other libraries."""
    first = [path for folder in ("pipelines", "tests", "benchmarks") for path in (ROOT / folder).iterdir()]
    found = [*first, *(ROOT / "pipelines").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert not sorted(str(path) for path in found if path.stem in sys.stdlib_module_names)
