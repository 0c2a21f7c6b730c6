"""What `dplangevin price` and `calibrate` print, against values that are computed otherwise."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
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
from dplangevin.cli.mechanism_options import Options, method_of, sampling_of
from dplangevin.methods.registry import named

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
    found, alone = (
        document(f"price {GAUSSIAN} --noise 4 --rows-per-person 2"),
        document(f"price {GAUSSIAN} --noise 2"),
    )
    for of in found["person"]:
        assert of["epsilon"] == pytest.approx(epsilon(alone, "tight", of["adjacency"]))
    (loose, _) = document("price --method ops --epsilon 1 --records 500 --rows-per-person 2")["person"]
    assert loose["argument"] == "group lemma, loose"


@pytest.mark.parametrize(("delta", "warned"), [("0.0099", False), ("0.01", True)])
def test_a_delta_that_a_published_record_meets_is_warned_of(delta: str, warned: bool) -> None:
    done = run(f"price --records 100 --batch 10 --noise 2 --epochs 1 --delta {delta} --explain")
    assert done.exit_code == 0
    assert ("Warning\n  delta 0.01 is not below 1/100: a method" in done.stdout) is warned
    assert "\n  Kifer et al. 2012: it prices objective perturbation with Gaussian noise only\n" in done.stdout


WORDS = [
    f"price {STEPS} --noise 1.1 --epochs 20",
    f"price {FEW} --noise 3 --epochs 1 --curve --tuned poisson --runs 3",
    "price --method dp_sgld_ryffel2022 --records 50000 --batch 128 --epochs 30 --noise-std 0.0022",
    f"calibrate {FEW} --epochs 1 --epsilon 1 --accountant rdp --neighbours add_remove",
]


@pytest.mark.parametrize("words", sample(WORDS, lambda words: "--curve" not in words))
@pytest.mark.parametrize("explain", ["", " --explain"])
def test_output_fits_80_columns_and_names_no_class(words: str, explain: str) -> None:
    done = run(words + explain)
    assert done.exit_code == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "DpEvent" not in done.stdout
    assert ("Not priced by" in done.stdout) is bool(explain)
    assert ("--explain adds" in done.stdout) is not bool(explain)
    assert "best proof" in done.stdout


def test_the_table_names_its_neighbours_and_the_failed_conditions() -> None:
    text = run(WORDS[0]).stdout
    title = "Neighbours: add/remove (one data set has a record more), replace-one (one record is replaced) "
    assert f"{title}accountant add/remove replace-one status" in " ".join(text.split())
    assert ["RDP", "1.03", "proven"] in [line.split() for line in text.splitlines()]
    failed = text.partition("Failed conditions: a number that needs one has the status claim\n")[2]
    assert failed.startswith("  Li et al. 2019 (printed, 2048 orders): ")


def test_a_failed_condition_makes_a_claim_of_a_price_and_is_named() -> None:
    last_iterate = "price --method dp_sgld_ryffel2022 --noise-std 0.02 --records 5000"
    for steps, status in (("--batch 50 --epochs 2", "claim"), ("--batch 5000 --epochs 9", "proven")):
        found = document(f"{last_iterate} {steps}")
        (row,) = (row for row in found["prices"] if row["key"] == "ryffel2022")
        assert row["status"] == status
        named = any("full batches: batch 50 of 5000" in text for text in row["violated"])
        assert named is (status == "claim")


def test_what_cannot_be_priced_is_listed_with_the_reason(sampled: dict[str, Any]) -> None:
    reasons = {(each["name"], each["adjacency"]): each["reason"] for each in sampled["refused"]}
    assert reasons["Kifer et al. 2012", ""] == "it prices objective perturbation with Gaussian noise only"
    assert "add_remove" in reasons["Li et al. 2019 (numerical, 32 orders)", "replace_one"]
    assert not any("DpEvent(" in reason for reason in reasons.values())
    assert not skipped(sampled)


def skipped(found: dict[str, Any]) -> set[str]:
    return {each["name"] for each in found["refused"] if "gigabyte" in each["reason"]}


def test_what_would_take_gigabytes_is_skipped_and_the_tight_price_is_there() -> None:
    found = document(f"price {FEW} --steps 100 --noise 1e-100")
    assert skipped(found) >= {"RDP", "Li et al. 2019 (numerical, 32 orders)"}
    for adjacency in ("add_remove", "replace_one"):
        assert math.isfinite(epsilon(found, "tight", adjacency))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["price --noise 10 --explain", "calibrate --epsilon 1", "calibrate --epsilon 6 --json"]
)
def test_only_the_answer_is_on_the_screen_and_torch_is_not_loaded(command: str) -> None:
    code = (
        "import sys\nfrom dplangevin.cli import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'pandas', 'sklearn'} & set(sys.modules)\n"
    )
    words = f"{command} --records 100 --batch 20 --epochs 1".split()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("records", "batch", "steps"), [(1000, 10, 929), (977, 31, 1), (60_000, 128, 9375)])
def test_as_many_steps_are_priced_as_were_asked_for(records: int, batch: int, steps: int) -> None:
    given = Options(records=records, batch=batch, steps=steps)
    samplings: tuple[Any, ...] = ("poisson", "subset")
    for scheme in samplings:
        sampling, n = sampling_of(replace(given, sampling=scheme))
        assert (n, sampling.steps(n)) == (records, steps)
    assert method_of(replace(given, method="dp_sgld")).sampling.steps(records) == steps


def test_how_epochs_become_steps_is_said() -> None:
    steps = "--records 1841 --batch 128 --epochs 3"
    for words in (
        f"price {steps} --noise 3",
        f"calibrate {steps} --epsilon 1",
        f"price {steps} --method dp_sgd --epsilon 1",
    ):
        said = " ".join(run(words).stdout.split())
        assert "--epochs 3 makes 43.15 steps; we take 43." in said, words
        assert "A program" not in said
    kept = " A program that keeps the last, smaller batch makes 45: give --steps 45."
    for sampling, more in (("subset", kept), ("full", "")):
        words = "--records 100 --epochs 2.5" if sampling == "full" else steps
        said = document(f"price {words} --noise 3 --sampling {sampling}")["rounding"]
        assert re.fullmatch(rf"--epochs [\d.]+ makes [\d.]+ steps; we take \d+\.{more}", said)
    for given in ("--records 6000 --batch 300 --epochs 3", "--records 1841 --batch 128 --steps 43"):
        assert not document(f"price {given} --noise 3")["rounding"]


def test_an_attack_above_the_best_proof_is_chance_or_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def attacked(event: Any, delta: float, adjacency: str) -> dict[str, Any]:
        runs = 100 if adjacency == "add_remove" else 0
        return {"adjacency": adjacency, "epsilon": 9.0, "runs": runs, "pair": "", "reason": ""}

    monkeypatch.setattr(command, "attacked", attacked)
    said = run(f"price {GAUSSIAN} --noise 2.83 --attack").stdout
    assert said.startswith("1 Gaussian step without sampling, noise multiplier 2.83;")
    assert re.search(r" >= 9 +attack: chance, 5 %, or a bug\n", said)
    assert re.search(r" >= 9  attack: a bug\n", said)
    assert max(map(len, said.splitlines())) <= 80


def test_the_attack_is_below_the_price_and_no_less_than_a_known_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "ATTACK_RUNS", 20_000)
    found = document(f"price {GAUSSIAN} --noise 2 --attack")
    for bound in found["attacks"]:
        price = epsilon(found, "tight", bound["adjacency"])
        assert 0.7 * price < bound["epsilon"] < price
        assert bound["runs"] == 20_000
        assert "gradient" in bound["pair"]
        assert "likelihood ratio" in bound["statistic"]
    found = document("price --method objpert --epsilon 1 --records 1000 --attack")
    added, replaced = found["attacks"]
    assert (added["adjacency"], added["epsilon"]) == ("add_remove", None)
    assert (added["reason"], replaced["runs"]) == ("the attack replaces a record", 0)
    assert 0.7 * epsilon(found, "tight", "replace_one") < replaced["epsilon"]
    in_a_ball = (
        "price --method dp_sgld_ryffel2022 --radius .5 --epsilon 4 --records 500 --steps 30 --batch 500"
    )
    found = document(f"{in_a_ball} --attack")
    *_, bound = found["attacks"]
    assert (
        0.2 * epsilon(found, "tight", "replace_one")
        < bound["epsilon"]
        < epsilon(found, "tight", "replace_one")
    )
    assert (bound["runs"], bound["statistic"]) == (20_000, "how often the last iterate is beyond a threshold")


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


# `test_library` has all methods
@pytest.mark.parametrize("method", ["objpert", "dp_sgld", "pate"])
def test_a_method_is_calibrated_to_its_tight_price(method: str) -> None:
    steps = "--steps 20" if hasattr(named(method), "sampling") else ""
    found = document(f"calibrate --method {method} --records 900 {steps} --epsilon 0.5 --public-rows 2000")
    rows = [row for row in found["prices"] if (row["key"], row["adjacency"]) == ("tight", "replace_one")]
    cost = min(row["epsilon"] for row in rows)
    assert 0.5 * (1 - 5e-3) < cost <= 0.5


def test_a_method_of_ones_own_and_any_setting(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from dplangevin.methods.ops import Ops\nclass Mine(Ops):\n    pass\n"
    (tmp_path / "mine_on_the_path.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = document("price --method mine_on_the_path.Mine --epsilon 1 --records 500 --set radius=3")
    ours = document("price --method ops --epsilon 1 --records 500 --radius 3")
    assert mine["prices"] == ours["prices"]


DP_SGD = "price --method dp_sgd --epsilon 1 --records 99"
FULL = f"price {STEPS} --noise 1.1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{FULL} --epochs 20 --delta 1", "--delta 1.0 must be between 0 and 1"),
        (f"price {STEPS} --noise 1e-200 --epochs 20", "--noise 1e-200 is too little noise to price: take 1e-100"),
        ("price --method dp_sgd --records 99 --noise 1e-9", "--noise 1e-09 is too little noise to price: take 0.0001"),
        (f"price {STEPS} --noise 1 --steps 1000000000000", "1e+12 steps are more than the 1e+08 that are composed"),
        ("price --noise 1 --epochs 20", "--records and --batch missing"),
        (FULL, "add for example --epochs 20, or --steps 1000"),
        (f"{FULL} --epochs 2 --steps 9", "--epochs and --steps say the same"),
        (f"{FULL} --epochs 2 --radius 3", "--radius belongs to a method"),
        ("price --method obspert --epsilon 1 --records 99", "did you mean objpert"),
        ("price --method sgd --records 99", "sgd has no privacy to price"),
        ("price --method dp_sgd --records 99", "add for example --epsilon 1, or where it has that setting --noise"),
        ("price --method ops --records 99 --epsilon -1", "--epsilon -1.0 must be positive"),
        ("price --method ops --epsilon 1 --records 99 --teachers 1", "'teachers'; --set NAME=VALUE sets bound,"),
        (f"{DP_SGD} --steps 9 --set sampling.epochs=2", "--steps and --set sampling.epochs=2 set the same"),
        ("price --method ops --epsilon 1 --records 99 --steps 1", "ops takes no steps: leave out --steps 1"),
            ("price --method ops --epsilon 1 --records 99 --set radios=1", "did you mean radius"),
        ("price --method ops --epsilon 1 --records 99 --set radius=.nan", "ops.radius = nan: must be a number"),
        ("price --method ops --epsilon 1 --records 99 --set radius='1'", "'1': Input should be a valid number"),
        ("price --method ops --epsilon 1 --records 99 --set radius=[", "--set radius=[: '[' cannot be read"),
        ("price --method pate --epsilon 1 --records 999", "--public-rows missing"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --noise 1", "leave out --noise"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --accountant tigt", "did you mean tight"),
        ("calibrate --records 9 --batch 3 --epochs 1 --epsilon 1 --accountant rdp", "Poisson samples need add_remove"),
        (f"price {GAUSSIAN} --noise 4 --runs 5", "--runs 5.0 belongs to --tuned"),
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
    tuned = found["tuned"]
    assert tuned["runs"] == "logarithmic with mean 10"
    for adjacency in ("add_remove", "replace_one"):
        one, best = epsilon(found, "tight", adjacency), epsilon(tuned, "tight", adjacency)
        noise = 4.0 if adjacency == "add_remove" else 2.0
        theirs = RdpAccountant().compose(RepeatAndSelectDpEvent(GaussianDpEvent(noise), 10.0, 0.0))
        assert one < best < theirs.get_epsilon(1e-5)
    poisson = document(f"price {GAUSSIAN} --noise 4 --tuned poisson --runs 10")["tuned"]
    assert epsilon(poisson, "tight", "add_remove") > epsilon(tuned, "tight", "add_remove")


def test_the_curve_is_that_of_gaussian_noise_and_never_below(tmp_path: Path) -> None:
    found = document(f"price {GAUSSIAN} --noise 4 --curve-file {tmp_path}/curve.csv")
    for adjacency, mu in (("add_remove", 0.25), ("replace_one", 0.5)):
        curve = found["curve"][adjacency]
        for point in curve["attack"]:
            exact = norm.cdf(norm.ppf(point["fpr"]) + mu)
            assert exact <= point["tpr"] < 1.03 * exact
            assert point["fnr"] == 1 - point["tpr"]
        assert 1 <= curve["advantage"] / (2 * norm.cdf(mu / 2) - 1) < 1.01
        for point in curve["epsilon"]:
            e = point["epsilon"]
            delta = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
            assert delta == pytest.approx(point["delta"], rel=1e-4)
    points = pd.read_csv(tmp_path / "curve.csv")
    assert set(points.curve) == {"epsilon at delta", "TPR at FPR"}


@pytest.mark.usefixtures("full_disk")
def test_prices_are_printed_where_the_curve_cannot_be_written(tmp_path: Path) -> None:
    done = run(f"price {GAUSSIAN} --noise 4 --curve-file {tmp_path}/curve.csv")
    assert (done.exit_code, "what an attack can reach" in done.stdout) == (2, True)
    assert f"{tmp_path}/curve.csv: No space left on device: free some space" in done.stderr
