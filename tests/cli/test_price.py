"""What `dplangevin price` and `calibrate` print, against values that are computed otherwise."""

import json
import math
import re
import subprocess
import sys
from typing import Any

import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from quick import sample
from scipy.stats import norm
from typer.testing import CliRunner

from dplangevin.cli import app
from dplangevin.cli import price as command
from dplangevin.text import number

STEPS = "--records 60000 --batch 128"
FEW = "--records 6000 --batch 300"
GAUSSIAN = "--steps 1"  # without sampling


def run(words: str) -> Any:
    return CliRunner().invoke(app, words.split())


def document(words: str) -> dict[str, Any]:
    done = run(f"{words} --json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert not {"NaN", "Infinity", "-Infinity"} & {*re.split(r"[\s,]+", done.stdout)}  # no JSON
    return found


@pytest.fixture(scope="module")
def sampled() -> dict[str, Any]:
    return document(f"price {STEPS} --noise 1.1 --epochs 20")


def epsilon(found: dict[str, Any], key: str, adjacency: str, scope: str = "all iterates") -> float:
    (row,) = (r for r in found["prices"] if (r["key"], r["adjacency"], r["scope"]) == (key, adjacency, scope))
    return float(row["epsilon"])


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_sampled_steps_cost_what_dp_accounting_says(adjacency: str, sampled: dict[str, Any]) -> None:
    relations = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    theirs = PLDAccountant(relations[adjacency == "replace_one"])
    theirs.compose(SelfComposedDpEvent(PoissonSampledDpEvent(128 / 60000, GaussianDpEvent(1.1)), 9375))
    assert epsilon(sampled, "tight", adjacency) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
    tight, *others = (row for row in sampled["prices"] if row["adjacency"] == adjacency)
    assert tight["status"] == "tight"
    assert [row["epsilon"] for row in others] == sorted(row["epsilon"] for row in others)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_a_gaussian_mechanism_costs_its_closed_form(adjacency: str, sensitivity: float) -> None:
    found = document(f"price {GAUSSIAN} --noise 4 --delta 1e-6")
    e, mu = epsilon(found, "tight", adjacency), sensitivity / 4
    delta = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
    assert delta == pytest.approx(1e-6, rel=1e-6)
    theirs = RdpAccountant().compose(GaussianDpEvent(4 / sensitivity)).get_epsilon(1e-6)
    assert e < theirs == pytest.approx(epsilon(found, "rdp", adjacency), rel=1e-6)


def test_a_person_costs_as_many_rows_of_gaussian_noise() -> None:
    found = document(f"price {GAUSSIAN} --noise 4 --rows-per-person 2")
    alone = document(f"price {GAUSSIAN} --noise 2")
    for of in found["more"]:
        assert of["epsilon"] == pytest.approx(epsilon(alone, "tight", of["adjacency"]))
    (loose, _) = document("price --method ops --epsilon 1 --records 500 --rows-per-person 2")["more"]
    assert loose["name"] == "person with 2 records: group lemma, loose"


@pytest.mark.parametrize(("delta", "batch", "warned"), [("0.0099", 10, False), ("0.01", 30, True)])
def test_a_delta_that_is_met_and_rounded_epochs_are_named(delta: str, batch: int, warned: bool) -> None:
    done = run(f"price --records 100 --batch {batch} --noise 2 --epochs 1 --delta {delta}")
    assert done.exit_code == 0
    assert ("Warning\n  delta 0.01 is not below 1/100: a method" in done.stdout) is warned
    assert ("  3 steps, as --epochs 1 makes 3.33333: for more give --steps\n" in done.stdout) is warned


WORDS = [
    f"price {STEPS} --noise 1.1 --epochs 20",
    f"price {FEW} --noise 3 --epochs 1 --tuned poisson --runs 3",
    "price --method dp_sgld_ryffel2022 --records 50000 --set sampling.batch=128 --set noise_std=0.0022",
    f"calibrate {FEW} --epochs 1 --epsilon 1 --accountant rdp --neighbours add_remove",
]


@pytest.mark.parametrize("words", sample(WORDS, lambda words: "--tuned" not in words))
def test_output_fits_80_columns_and_names_no_class(words: str) -> None:
    done = run(words)
    assert done.exit_code == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "DpEvent" not in done.stdout
    assert "best proof" in done.stdout


def test_the_table_names_its_neighbours_and_the_failed_conditions() -> None:
    text = run(WORDS[0]).stdout
    title = "Neighbours: add/remove (one data set has a record more), replace-one (one record is replaced) "
    assert f"{title}accountant add/remove replace-one status" in " ".join(text.split())
    assert ["RDP", "1.03", "proven"] in [line.split() for line in text.splitlines()]
    failed = text.partition("Failed conditions: a number that needs one has the status claim\n")[2]
    assert failed.startswith("  Li et al. 2019 (printed, 2048 orders): ")


def test_a_failed_condition_makes_a_claim_of_a_price_and_is_named() -> None:
    last_iterate = "price --method dp_sgld_ryffel2022 --set noise_std=0.02 --records 5000"
    for batch, epochs, status in ((50, 2, "claim"), (5000, 9, "proven")):
        found = document(f"{last_iterate} --set sampling.batch={batch} --set sampling.epochs={epochs}")
        (row,) = (row for row in found["prices"] if row["key"] == "ryffel2022")
        assert row["status"] == status
        named = any("full batches: batch 50 of 5000" in text for text in row["violated"])
        assert named is (status == "claim")


def test_what_would_take_gigabytes_is_skipped_and_the_tight_price_is_there() -> None:
    found = document(f"price {FEW} --steps 100 --noise 1e-100")
    assert "rdp" not in {row["key"] for row in found["prices"]}
    for adjacency in ("add_remove", "replace_one"):
        assert math.isfinite(epsilon(found, "tight", adjacency))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["price --noise 10", "calibrate --epsilon 1", "calibrate --epsilon 6 --json"]
)
def test_only_the_answer_is_on_the_screen_and_torch_is_not_loaded(command: str) -> None:
    code = (
        "import sys\nfrom dplangevin.cli import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'pandas', 'sklearn'} & set(sys.modules)\n"
    )
    words = f"{command} --records 100 --batch 20 --epochs 1".split()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_attack_is_below_the_price_and_no_less_than_a_known_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "ATTACK_RUNS", 20_000)
    found = document(f"price {GAUSSIAN} --noise 2 --attack")
    for bound in found["more"]:
        price = epsilon(found, "tight", bound["adjacency"])
        assert 0.7 * price < bound["epsilon"] < price
        assert bound["name"] == "worst pair: 20,000 runs on each data set"
    found = document("price --method objpert --epsilon 1 --records 1000 --attack")
    added, replaced = found["more"]
    assert (added["adjacency"], added["epsilon"]) == ("add_remove", None)
    assert added["name"] == "worst pair: the attack replaces a record"
    assert replaced["name"] == "worst pair: exact"
    assert 0.7 * epsilon(found, "tight", "replace_one") < replaced["epsilon"]
    in_a_ball = "price --method dp_sgld_ryffel2022 --epsilon 4 --records 500 --set radius=.5"
    found = document(f"{in_a_ball} --set sampling.epochs=30 --set sampling.batch=500 --attack")
    *_, bound = found["more"]
    price = epsilon(found, "tight", "replace_one")
    assert 0.2 * price < bound["epsilon"] < price
    assert bound["name"] == "worst pair: 20,000 runs on each data set"


@pytest.mark.parametrize(
    ("accountant", "adjacency", "sampling"),
    [
        ("tight", "replace_one", "poisson"),
        ("rdp", "add_remove", "poisson"),
        ("wang2015", "replace_one", "subset"),
    ],
)
def test_the_price_of_the_calibrated_noise_is_the_budget(
    accountant: str, adjacency: str, sampling: str
) -> None:
    steps = f"{FEW} --epochs 2 --sampling {sampling}"
    found = document(f"calibrate {steps} --epsilon 0.7 --accountant {accountant} --neighbours {adjacency}")
    noise = found["settings"]["noise_multiplier"]
    priced = document(f"price {steps} --noise {noise}")
    assert priced["prices"] == found["prices"]
    cost = epsilon(priced, accountant, adjacency)
    assert 0.7 * (1 - 1e-3) < cost <= 0.7


def test_a_method_of_ones_own_and_any_setting(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from dplangevin.methods.ops import Ops\nclass Mine(Ops):\n    pass\n"
    (tmp_path / "mine_on_the_path.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = document("price --method mine_on_the_path.Mine --epsilon 1 --records 500 --set radius=3")
    ours = document("price --method ops --epsilon 1 --records 500 --set radius=3.0")
    assert mine["prices"] == ours["prices"]


DP_SGD = "price --method dp_sgd --epsilon 1 --records 99"
FULL = f"price {STEPS} --noise 1.1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{FULL} --epochs 20 --delta 1", "--delta 1.0 must be between 0 and 1"),
        (f"price {STEPS} --noise 1e-200 --epochs 20", "--noise 1e-200 must be positive and finite"),
        ("price --method dp_sgd --records 99 --set noise_multiplier=1e-9", "more than a gigabyte: add noise"),
        (f"price {STEPS} --noise 1 --steps 1000000000000", "1e+12 steps: at most 1e+08 are composed"),
        ("price --noise 1 --epochs 20", "--records and --batch missing"),
        (FULL, "add for example --epochs 20"),
        (f"{FULL} --epochs 2 --steps 9", "--epochs and --steps say the same"),
        (f"{FULL} --epochs 2 --set radius=3", "--set is for a method: name one by --method"),
        (f"{FULL} --epochs 2 --epsilon 3", "--epsilon is for a method"),
        (f"{FULL} --epochs 2 --runs 50", "--runs 50: add --tuned poisson"),
        ("price --method obspert --epsilon 1 --records 99", "did you mean objpert"),
        ("price --method sgd --records 99", "sgd has no privacy to price"),
        ("price --method dp_sgd --records 99", "--epsilon missing: add for example --epsilon 1"),
        ("price --method ops --records 99 --epsilon -1", "--epsilon -1.0 must be positive"),
        ("price --method ops --epsilon 1 --records 99 --set teachers=1", "no setting 'teachers'; it has bound,"),
        (f"{DP_SGD} --steps 9", "--steps is for Gaussian steps; of a method --set says it"),
        ("price --method ops --epsilon 1 --records 99 --set radios=1", "did you mean radius"),
        ("price --method ops --epsilon 1 --records 99 --set radius=.nan", "ops.radius = nan: must be a number"),
        ("price --method ops --epsilon 1 --records 99 --set radius='1'", "'1': Input should be a valid number"),
        ("price --method ops --epsilon 1 --records 99 --set radius=[", "--set radius=[: '[' cannot be read"),
        ("price --method pate --epsilon 1 --records 999", "--public-rows missing"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --noise 1", "leave out --noise"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --accountant tigt", "did you mean tight"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --accountant rdp", "Poisson samples need add_remove"),
        ("calibrate --records 9 --epsilon 1 --method ops", "--method ops: use `dplangevin.budget_for`"),
        (f"price {GAUSSIAN} --noise 4 --tuned poisson --runs 0.5", "must be in [1, inf)"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_that_names_it_and_the_fix(words: str, said: str) -> None:
    done = run(words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("dplangevin: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where_an_error_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPL_DEBUG", "1")
    assert isinstance(run(f"{FULL} --epochs 20 --delta 1").exception, ValueError)


def test_tuning_costs_between_one_run_and_the_papers_theorem() -> None:
    found = document(f"price {GAUSSIAN} --noise 4 --tuned negative-binomial")
    tuned = {row["adjacency"]: row["epsilon"] for row in found["more"]}
    for adjacency in ("add_remove", "replace_one"):
        one, best = epsilon(found, "tight", adjacency), tuned[adjacency]
        noise = 4.0 if adjacency == "add_remove" else 2.0
        theirs = RdpAccountant().compose(RepeatAndSelectDpEvent(GaussianDpEvent(noise), 10.0, 0.0))
        assert one < best < theirs.get_epsilon(1e-5)
    poisson, _ = document(f"price {GAUSSIAN} --noise 4 --tuned poisson --runs 10")["more"]
    assert poisson["epsilon"] > tuned["add_remove"]


def test_the_curve_is_that_of_gaussian_noise_and_never_below_and_explain_names_the_proof() -> None:
    found = document(f"price {GAUSSIAN} --noise 4 --curve")["more"]
    for adjacency, mu in (("add_remove", 0.25), ("replace_one", 0.5)):
        values = {row["name"]: row["epsilon"] for row in found if row["adjacency"] == adjacency}
        for delta in (1e-2, 1e-7, 1e-12):
            (eps,) = (value for name, value in values.items() if name.startswith(f"delta {number(delta)}:"))
            exact = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
            assert exact == pytest.approx(delta, rel=1e-3)
        for rate in (0.001, 0.1, 0.5):
            rates = [value for name, value in values.items() if f" at {rate:g} false" in name]
            assert [1 <= value / norm.cdf(norm.ppf(rate) + mu) < 1.01 for value in rates] == [True]
    assert "RDP: Accountant of Gaussian steps by Renyi" in run(f"price {GAUSSIAN} --noise 4 --explain").output
