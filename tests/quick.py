"""Cases of a test that `make test` runs; the others are marked slow, so that `make test-all` alone runs them."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sample(cases: Iterable[Any], quick: Callable[..., object]) -> list[Any]:
    """Parameters of all cases; `quick` takes a case (a tuple: its parts) and says whether `make test` runs it."""
    found = []
    for case in cases:
        parts = case if type(case) is tuple else (case,)
        found.append(case if quick(*parts) else pytest.param(*parts, marks=pytest.mark.slow))
    return found
