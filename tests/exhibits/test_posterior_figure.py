"""The samplers beside the posterior: temperatures, axes, diverged chains, and the page of diagnostics."""

import numpy as np
import pandas as pd
import pytest

from dplangevin.exhibits import style
from dplangevin.exhibits.posterior import family, page, scores

METHODS = ["dp_sgld", "dp_sgfs"]
PANELS = {"accuracy": "accuracy", "covariance_distance": "distance"}


def test_scores_leave_diverged_chains_out_and_count_them(family_runs: pd.DataFrame) -> None:
    table = scores(family_runs)
    at = table.method.eq("dp_sgfs") & table.variant.eq("temperature=proper") & table.epsilon.eq(0.1)
    row = table[at & table.metric.eq("brier")].iloc[0]
    assert (row.repeats, row.diverged, row.temperature) == (8, 2, "proper")
    kept = family_runs[family_runs.method.eq("dp_sgfs") & family_runs.epsilon.eq(0.1)]
    kept = kept[kept.variant.eq("temperature=proper") & kept.metric.eq("brier")]
    assert row["mean"] == pytest.approx(np.nanmean(kept.value))
    assert table[table.method.eq("dp_sghmc")].temperature.eq("printed").all()
    with pytest.raises(ValueError, match="conf/exhibit"):
        scores(family_runs.assign(metric="seconds"))


def test_curves_by_temperature_on_log_axes(family_runs: pd.DataFrame) -> None:
    figure = family(family_runs, methods=METHODS, panels=PANELS, audited=True)
    accuracy, distance = figure.axes
    assert (accuracy.get_yscale(), distance.get_yscale()) == ("linear", "log")
    orange = [line for line in distance.lines if line.get_color() == style.look("dp_sgld").colour]
    assert {"-", "--"} <= {line.get_linestyle() for line in orange}
    x = np.asarray(orange[0].get_xdata(), dtype=float)
    assert x == pytest.approx(np.log([0.005, 0.05, 0.5, 5.0]))
    levels = [line for line in distance.lines if line.get_color() == "black"]
    assert sorted(str(line.get_linestyle()) for line in levels) == ["-", "--"]
    assert "left out: DP-SGFS 2" in figure.texts[0].get_text()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"noise as printed", "noise that targets the posterior", style.HOLLOW_LABEL} <= set(labels)
    with pytest.raises(ValueError, match=r"pate.*conf/exhibit"):
        family(family_runs, methods=["pate"], panels=PANELS)


def test_page_reads_diagnostics_at_their_worst(family_runs: pd.DataFrame) -> None:
    text = page(family_runs, methods=["sgld", *METHODS], title="t")
    lines = [line for line in text.splitlines() if line.startswith("| DP-SGLD | proper | 1 | 0.05 |")]
    assert len(lines) == 1
    mine = family_runs[family_runs.method.eq("dp_sgld") & family_runs.epsilon.eq(1.0)]
    mine = mine[mine.variant.eq("temperature=proper")]
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert cells[8] == style.short(mine[mine.metric.eq("r_hat")].value.max())
    assert cells[9] == style.short(mine[mine.metric.eq("ess")].value.min())
    assert cells[4] == f"{mine[mine.metric.eq('accuracy')].value.mean():.4f}"
    assert any(line.startswith("| DP-SGFS† |") and " /2 |" in line for line in text.splitlines())
    assert "| SGLD, not private | printed | none | none |" in text
