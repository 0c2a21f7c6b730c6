"""What every test shares: one torch thread, no writing of user settings, fixed hypothesis examples."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ |= {
    "DPL_WORKERS": "1",  # xdist has the cores
    "SOURCE_DATE_EPOCH": "1800000000",  # equal bytes before and after midnight
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}  # requests to a server of a test's own go to it

import hypothesis
import numpy as np
import pytest
import torch
from checkout import fresh_clone

torch.set_num_threads(1)
hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("project")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of the test's own."""
    return np.random.default_rng(np.random.SeedSequence(20150706))


@pytest.fixture
def fine_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of noisy sums too fine to see, for comparisons with sums that are not rounded."""
    monkeypatch.setattr("dplangevin.random.GRID", 2.0**-40)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this checkout, for all tests of a module."""
    return fresh_clone(tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browsing import chromium  # Playwright takes long to import

    with chromium() as started:
        yield started


@pytest.fixture(autouse=True)
def _global_generators_untouched() -> Iterator[None]:
    """Every random draw takes a generator: a test that moves a global one fails."""
    before_numpy = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    before_torch = torch.get_rng_state()
    yield
    assert np.array_equal(before_numpy, np.random.get_state()[1]), "NumPy's global generator was used"  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(before_torch, torch.get_rng_state()), "torch's global generator was used"


@pytest.fixture(autouse=True)
def _no_workers_of_another_folder() -> Iterator[None]:
    """joblib keeps its processes, in the folder where they were started."""
    yield
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    if loky is not None and loky._executor is not None:
        loky.get_reusable_executor().shutdown(wait=True)
