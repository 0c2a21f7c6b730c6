"""Stored prices of networks are those of the accountant as it is."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import reprice

RESULTS = Path(__file__).resolve().parents[1] / "results"


@pytest.mark.parametrize(
    ("run", "schedule"), [("tanh_dp_sgd_reference", "fixed"), ("tanh_dp_sgld_decreasing", "decreasing")]
)
def test_training_prices_are_in_step(run: str, schedule: str, tmp_path: Path) -> None:
    stored = RESULTS / "training/li2019_tab1" / run
    shutil.copytree(stored, tmp_path / run)
    assert reprice.training(tmp_path / run, schedule, 60_000) < 1e-9  # type: ignore[arg-type]
    for name in ("final.csv", "curve.csv"):
        assert (tmp_path / run / name).read_bytes() == (stored / name).read_bytes()


def test_a_stale_price_is_found_and_put_right(tmp_path: Path) -> None:
    stored, path = RESULTS / "finetune/block_dp_sgd.csv", tmp_path / "block_dp_sgd.csv"
    frame = reprice.read(stored)
    path.write_text(frame.assign(epsilon_tight=frame.epsilon_tight * 0.98).to_csv(index=False))
    assert reprice.finetune(path, 50_000) == pytest.approx(0.02, rel=1e-3)
    assert pd.read_csv(path).epsilon_tight[0] == pytest.approx(frame.epsilon_tight[0], rel=1e-9)
