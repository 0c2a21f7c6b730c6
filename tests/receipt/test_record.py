"""What a receipt publishes, what it keeps private, and logs of other programs."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from minibatches import RNG, gaussian, poisson
from typer.testing import CliRunner

from dplangevin import Receipt
from dplangevin.cli import app
from dplangevin.receipt.prices import NO_PRICE, price


def receipt(rate: float | None = 0.1) -> Receipt:
    found = Receipt(400, 1e-5, rate, claim=2.0)
    for draw in poisson(400, 40, 30):
        found.step(draw, clip=1.0, noise_std=2.0, divisor=40)
    return found


def test_nothing_that_is_saved_depends_on_which_rows_were_drawn(tmp_path: Path) -> None:
    first, second = (receipt() for _ in range(2))
    for path, of in (("a", first), ("b", second)):
        of.save(tmp_path / path)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert first.registry() == second.registry()
    assert first.paragraph() == second.paragraph()
    said = json.loads((tmp_path / "a").read_text())
    assert (said["rate"], said["steps"], said["sampling"]) == (0.1, 30, "Poisson samples")
    assert said["claim"]["verdict"] == "covered for adding or removing one row"
    with pytest.raises(ValueError, match="give the stated rate"):
        receipt(rate=None).save(tmp_path / "c")


def test_more_draws_than_rows_have_no_price_and_their_number_is_not_told() -> None:
    of = Receipt(100, 1e-5)
    for size in np.random.default_rng(0).poisson(150, 20):
        of.step(np.random.default_rng(size).integers(0, 100, size), clip=1.0, noise_std=2.0, divisor=40)
    assert {each["argument"] for each in of.statement()["prices"].values()} <= {*NO_PRICE.values()}


def test_the_log_is_private_and_gives_the_receipt_back(tmp_path: Path) -> None:
    path, of = tmp_path / "log.jsonl", receipt()
    of.save_log(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text().splitlines()[0])["private"] is True
    assert str(Receipt.read(path)) == str(of)


@pytest.mark.parametrize(
    ("at", "line", "why"),
    [
        (1, '{"delta": 1e-5}', "line 1: records: Field required"),
        (2, '{"minibatches": [[400]]}', r"line 2: index \[400\] is none of the 400 rows"),
        (2, '{"minibatches": [[1]], "clip": -1}', "line 2: clip: Input should be greater than 0"),
        (3, '{"minibatches": [[1]], "noise": 1}', "line 3: noise: Unexpected keyword argument"),
        (2, "[1, 2", "line 2: Expecting"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, at: int, line: str, why: str) -> None:
    path = tmp_path / "log.jsonl"
    receipt().save_log(path)
    lines = path.read_text().splitlines()
    lines[at - 1] = line
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=why):
        Receipt.read(path)


def test_the_command(tmp_path: Path) -> None:
    path, of = tmp_path / "log.jsonl", receipt()
    of.save_log(path)
    run = CliRunner().invoke
    assert run(app, ["receipt", str(path)]).output.rstrip("\n") == str(of)
    assert of.paragraph() in run(app, ["receipt", str(path), "--show", "paragraph"]).output.replace("\n", "")
    assert "unit_of_privacy: a row" in run(app, ["receipt", str(path), "--show", "registry"]).output
    assert set(json.loads(run(app, ["receipt", "--show", "schema"]).output)) == {"first line", "every step"}
    assert json.loads(run(app, ["receipt", str(path), "--show", "json"]).output) == of.statement()
    assert run(app, ["receipt"]).exit_code == 2


@pytest.mark.parametrize("stages", [1, 4, 60])
@pytest.mark.parametrize("of", ["divisor", "noise_std"])
def test_what_follows_the_sizes_is_neither_priced_nor_saved(of: str, stages: int, tmp_path: Path) -> None:
    """Also under a schedule of the noise, which alone has a price."""
    found, schedule = Receipt(400, 1e-5, 0.1), Receipt(400, 1e-5, 0.1)
    for step, draw in enumerate(poisson(400, 40, 60)):
        grown = 1 + 0.3 * (step * stages // 60) / stages
        stated = {"divisor": 40.0, "noise_std": 2.0 * grown}
        schedule.step(draw, clip=1.0, **stated)
        by_size = {"divisor": 10.0 * round(len(draw) / 10), "noise_std": grown * len(draw) / 20}
        found.step(draw, clip=1.0, **stated | {of: by_size[of]})
    assert np.isfinite(schedule.prices()["add_remove"].epsilon)
    schedule.save(tmp_path / "schedule")
    assert np.isnan(found.prices()["add_remove"].epsilon)
    with pytest.raises(ValueError, match="make them constant"):
        found.save(tmp_path / "a")


def test_notes_leave_no_price_and_stay_in_the_log(tmp_path: Path) -> None:
    of = receipt()
    of.note("parameters changed outside optimizer.step")
    of.save_log(tmp_path / "log")
    again = Receipt.read(tmp_path / "log")
    assert "no price covers this: parameters changed" in str(again)
    assert "not covered" in again.statement()["claim"]["verdict"]
    assert "no known finite price" in again.paragraph()


def test_a_mask_is_no_list_of_rows_and_no_step_has_no_price() -> None:
    with pytest.raises(ValueError, match="flatnonzero"):
        receipt().step(np.ones(400, dtype=bool))
    with pytest.raises(ValueError, match="no step was recorded"):
        str(Receipt(10))


def test_if_several_samplers_fit_the_largest_price_counts() -> None:
    """One minibatch can be of any sampler."""
    short = Receipt(400, 1e-5)
    short.step(np.random.default_rng(1).permutation(400)[:200], clip=1.0, noise_std=1.0, divisor=200)
    assert {each.scheme for each in short.recognise()[0].samplers} >= {"shuffled", "subset", "poisson"}
    largest = max(price(each, 1e-5, "replace_one").epsilon for each in short.candidates())
    assert short.prices()["replace_one"].epsilon == largest
    assert np.isnan(short.prices()["add_remove"].epsilon)


@pytest.mark.parametrize("steps", [2, 10, 60])
def test_epochs_cut_at_unequal_sizes_are_not_priced_as_random_allocation_alone(steps: int) -> None:
    """Shuffled rows can be cut at the sizes that random allocation draws, which stay secret."""
    of = Receipt(400, 1e-5)
    for _ in range(3):
        cuts = np.bincount(RNG.integers(0, steps, 400), minlength=steps).cumsum()[:-1]
        for rows in np.split(RNG.permutation(400), cuts):
            of.step(rows, clip=1.0, noise_std=4.0, divisor=40)
    assert of.prices()["replace_one"].epsilon == pytest.approx(gaussian(2 * 3**0.5 / 4), rel=1e-6)
    assert np.isnan(of.prices()["add_remove"].epsilon)
    assert "batch" not in of.statement()


def test_poisson_samples_that_a_step_adds_up_are_several_draws() -> None:
    """Also if no row happens to be in two of them."""
    of = Receipt(20_000, 1e-5, 0.0005)
    drawn = poisson(20_000, 10, 40)
    for first, second in zip(drawn[::2], drawn[1::2], strict=True):
        of.step([first, second], clip=1.0, noise_std=1.0, divisor=20)
    assert of.recognise()[0].samplers[-1].scheme == "poisson"
    assert of.candidates()[-1].samples == 2
