"""What every method of conf/method promises, on every problem that it is defined for."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

import emulated
import numpy as np
import pytest
import torch
from composed import parameters
from hydra.utils import instantiate
from quick import sample
from scenarios import last, linear, logistic, multinomial, network, separable

from dplangevin import random
from dplangevin.methods import Execution, Method, Plan, Release, pricing, released
from dplangevin.methods import planned as planned_by_method
from dplangevin.methods.evaluate import predictive
from dplangevin.methods.pate import Caps
from dplangevin.methods.perturbed_fits import Fit
from dplangevin.methods.registry import METHODS
from dplangevin.pipeline.plan import merged, plain
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import rate_and_multiplier
from dplangevin.problems import Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm

INF, DELTA, SEEDS = math.inf, 1e-5, 3


def public(problem: Glm, tests: int = 60) -> Glm:
    """With test rows, the first of its own."""
    return replace(problem, x_test=problem.x[:, :tests], y_test=problem.y[:, :tests].clamp_min(0).long())


# every loss, rows of each seed's own and shared rows, a network from scratch and a pretrained one; `test_glm` and
# `test_last_block` check the sums of the others
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "logistic": lambda: public(logistic(n=200)),
    "softmax": lambda: public(multinomial(n=200, shared=True)),
    "huber": lambda: public(linear(n=200, shared=True)),
    "network": network,
    "block": last,
}
NETWORKS = ("network", "block")

# what makes a method quick
SAMPLER = {"warmup": 20, "block": 20, "max_draws": 20}
FEW, SOME = {"sampling": {"epochs": 3}}, {"sampling": {"batch": 20, "epochs": 2}}
VOTE = {"queries": 30, "fewest": 10, "asked": 2.5, "threshold": 12.0}
QUICK: dict[str, dict[str, Any]] = {
    "ops": {"sampler": SAMPLER},
    "ops_gdp": {"sampler": SAMPLER},
    "hybrid": {"first": {"sampler": SAMPLER}, "second": FEW},
    "hybrid_sgld": {"first": {"sampler": SAMPLER}, "second": FEW},
    "dp_sgfs": {"sampling": {"epochs": 1}, "refresh": 3},
    "pate": {"teachers": 20, "vote": VOTE},
    **dict.fromkeys(("dp_sgld", "dp_sgnht", "dp_sghmc"), FEW),
    "dp_sgld_ryffel2022": {"sampling": {"batch": 20, "epochs": 0.5}},  # a price of many steps takes a second
    **dict.fromkeys(("dp_sgld_li2019", "sgd", "sgld", "dp_sgd", "dpvi"), SOME),
    **dict.fromkeys(("dp_sghmc_li2019", "sghmc"), SOME),
}
# networks have no smoothness that steps could be in units of, and no bound on their gradients
STEP: dict[str, Any] = {"unit": "absolute", "step": 0.1}
CLIP = {"clip": 2.5}  # not 1, or noise that ignores it would look right
TRAINED = "dplangevin.methods.teachers.Descent"
DESCENT = {"_target_": TRAINED, "step": 0.05, "momentum": 0.9, "batch": 5}
ON_NETWORKS: dict[str, dict[str, Any]] = {
    "sgd": STEP,
    "sgld": STEP,
    "sghmc": STEP,
    "pate": {
        "teachers": 6,
        "teacher": {**DESCENT, "decay": 0.01, "steps": 4},
        "vote": {"queries": 20, "fewest": 5, "threshold": 4.0, "answer_std": 4.0},
        "student": {**DESCENT, "decay": 0.0, "steps": 5},
        "scored": "odd",
    },
    **dict.fromkeys(("dp_sgd", "dp_sgld", "dp_sghmc", "dp_sgnht"), STEP | CLIP),
    **dict.fromkeys(("dp_sgld_li2019", "dp_sghmc_li2019", "dp_sgld_ryffel2022"), STEP | CLIP),
}
# methods that need a budget; that have none; that may spend less (rho stops at 1, steps where they are stable)
ALWAYS_PRIVATE = ("dp_sgld_ryffel2022",)
UNBUDGETED = ("nonprivate", "sgd", "sgld", "sghmc")
CAPPED = ("ops", "ops_gdp", "hybrid", "hybrid_sgld", "dp_sgld_li2019", "dp_sghmc_li2019")
PURE = ("ops", "objpert_pure")
HMC = ("ops", "ops_gdp", "hybrid", "hybrid_sgld")
OWN_NOISE = (*HMC, "objpert", "objpert_tight", "objpert_pure", "outpert")  # of each budget
SAME_FOR_ALL = ("nonprivate", "pate")  # on shared rows; a student may have been told nothing


def defined(name: str, problem: str) -> bool:
    if problem == "network":
        return name in ON_NETWORKS
    if problem == "block":  # one of each way to train it
        return name in ("sgd", "dp_sgd", "pate")
    refused = {"pate": "huber", "dpvi": "softmax"}.get(name, "")
    return problem != refused


CASES = [(name, problem) for name in METHODS for problem in PROBLEMS if defined(name, problem)]
BUDGETED = [(name, problem) for name, problem in CASES if name not in UNBUDGETED and problem != "block"]
REFUSED = [(name, of) for name in METHODS for of in PROBLEMS if not defined(name, of) and of != "block"]


# One method for each way through the code: the fused step, the loop with a momentum, each kernel of a method's own, a
# network from scratch, a pretrained one, a perturbed fit, a posterior sample, two releases and a vote
PATHS = {("dp_sgd", "softmax"), ("dp_sghmc", "huber"), ("dp_sgld_li2019", "network"), ("dp_sgd", "block")}
PATHS |= {
    ("objpert", "huber"),
    *((of, "logistic") for of in ("dp_gd", "dp_sgfs", "dpvi", "ops", "hybrid", "pate")),
}


def on_a_path(name: str, problem: str) -> bool:
    return (name, problem) in PATHS


def first_problem(name: str, problem: str) -> bool:
    return problem == "logistic"


@lru_cache
def problem_of(name: str) -> Any:
    return PROBLEMS[name]()


def make(name: str, problem: str = "logistic", **overrides: Any) -> Method:
    changes = [QUICK.get(name, {}), ON_NETWORKS.get(name, {}) if problem in NETWORKS else {}, overrides]
    method: Method = instantiate(reduce(merged, changes, plain(parameters().method[name])))
    return method


def budgets(name: str) -> list[float]:
    return [INF] if name in UNBUDGETED else [0.3, 5.0]


def run(name: str, problem: str, epsilons: list[float], of: Any = None, **overrides: Any) -> Release:
    wanted, of = [Budget(epsilon, DELTA) for epsilon in epsilons], of or problem_of(problem)
    return released(make(name, problem, **overrides), of, wanted, SEEDS, random.generator(0, "test"))[0]


@lru_cache
def first(name: str, problem: str) -> Release:
    return run(name, problem, budgets(name))


def planned(name: str, problem: str, epsilon: float, **overrides: Any) -> Plan:
    return make(name, problem, **overrides).plan(problem_of(problem).facts, Budget(epsilon, DELTA))


def close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return torch.allclose(found, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize(("name", "problem"), sample(CASES, on_a_path))
def test_releases_are_finite_repeat_to_the_byte_and_differ_between_seeds(name: str, problem: str) -> None:
    release, of = first(name, problem), problem_of(problem)
    assert (*release.theta.shape[:2], release.theta.shape[3]) == (SEEDS, len(budgets(name)), of.facts.d)
    assert bool(release.theta.isfinite().all())
    # a pickle holds the whole storage
    assert release.theta.untyped_storage().nbytes() <= release.theta.nbytes
    assert len(release.not_reached) == len(budgets(name))
    assert all(value.shape == release.theta.shape[:2] for value in release.not_private.values())
    probability = probabilities(of, release)
    assert probability.shape == (SEEDS, len(budgets(name)), of.y_test.shape[1], of.facts.classes)
    torch.testing.assert_close(probability.sum(-1), torch.ones(probability.shape[:-1]))
    again = run(name, problem, budgets(name))
    assert release.theta.numpy().tobytes() == again.theta.numpy().tobytes()
    if not (name in SAME_FOR_ALL and problem != "logistic"):
        assert all(not torch.equal(release.theta[0], release.theta[s]) for s in (1, 2))


def probabilities(of: Any, release: Release) -> torch.Tensor:
    return predictive(of, release.theta) if release.predicted is None else release.predicted


def same_on(name: str, problem: str, device: torch.device) -> bool:
    wanted, here = first(name, problem), problem_of(problem)
    there = here.to(device)
    found = run(name, problem, budgets(name), there)
    assert found.theta.device.type == device.type
    same = torch.allclose(probabilities(there, found), probabilities(here, wanted), atol=1e-3)
    return close(found.theta.cpu(), wanted.theta) and same


@pytest.mark.parametrize(  # of the posterior samplers that are made of OPS, on one problem
    ("name", "problem"),
    sample(
        [case for case in CASES if case[0] not in HMC[1:] or case[1] == "logistic"],
        lambda name, problem: on_a_path(name, problem) and name != "hybrid" and problem != "block",
    ),
)
def test_a_release_is_the_same_on_a_device_that_refuses_tensors_of_the_cpu(name: str, problem: str) -> None:
    with emulated.on(emulated.NAME) as device:
        assert same_on(name, problem, device)


@pytest.mark.gpu
def test_every_release_is_the_same_on_a_gpu() -> None:
    with emulated.on("cuda") as device:
        assert [case for case in CASES if not same_on(*case, device)] == []


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_of_its_chains_is_drawn_in_the_precision_that_is_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def seen(*given: Any) -> Any:
        asked.append(given[-1])
        return random.batches(*given)

    monkeypatch.setattr("dplangevin.samplers.chains.loop.batches", seen)
    of, method = problem_of("logistic"), make(name)
    plans = planned_by_method(method, of.facts, [Budget(epsilon, DELTA) for epsilon in budgets(name)], name)
    method.release(of, plans, Execution(SEEDS, random.generator(0, "test"), drawn_in=torch.float32))
    assert set(asked) <= {torch.float32}


@pytest.mark.parametrize(("name", "problem"), sample(BUDGETED, first_problem))
def test_budgets_are_kept_and_prices_recompute_from_the_events(name: str, problem: str) -> None:
    method = make(name, problem)
    for epsilon in (0.3, 5.0):
        plan = planned(name, problem, epsilon)
        guarantee = plan.guarantee
        assert plan.noise_given is False
        claimed = method.accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        assert claimed == guarantee.epsilon
        assert guarantee.epsilon <= epsilon * (1 + 1e-6)
        assert guarantee.delta <= DELTA
        assert guarantee.epsilon > 0.999 * epsilon or (name in CAPPED and epsilon > 4)
        assert Tight().epsilon(guarantee.event, DELTA, guarantee.adjacency) <= epsilon * (1 + 1e-3)
    if name not in ALWAYS_PRIVATE:
        assert planned(name, problem, INF).guarantee.epsilon == INF


def noise(work: Any) -> list[float]:
    """What a plan adds, in numbers that are smaller where there is less of it."""
    if isinstance(work, Chain):
        return (work.noise_std / work.clip if work.clip < INF else work.noise_std).tolist()
    if isinstance(work, Caps):  # a label more may cost a little noise
        return [1 / work.answers]
    if isinstance(work, Fit):  # beside noise on the fit, which is slight and grows with the length of theta
        return [work.ridge, work.scale or work.output_scale]
    if hasattr(work, "chain"):  # noise of another release, then the steps
        return [work[0], *noise(work.chain)]
    if type(work) is tuple:
        return [number for part in work for number in noise(part.work)]
    return [1 / value if field == "rho" else value for field, value in zip(work._fields, work, strict=True)]


@pytest.mark.parametrize(("name", "problem"), sample(BUDGETED, first_problem))
def test_the_noise_of_a_chain_is_what_its_event_prices(name: str, problem: str) -> None:
    """Step by step, deviation over the bound on a record's gradient; events may round it down by 2 %."""
    plan, of = planned(name, problem, 1.0), problem_of(problem)
    chain, event = plan.work, getattr(plan.paper, "all_iterates", lambda: plan.guarantee.event)()
    if not isinstance(chain, Chain) or name == "dp_sgfs":  # a Gaussian step of two releases: see test_dp_sgfs
        return
    sampling, bound = chain.sampling, chain.clip if chain.clip < INF else of.facts.lipschitz
    priced = []
    for leaf, count in leaves(event):
        rate, multiplier = rate_and_multiplier(leaf)
        assert rate == pytest.approx(sampling.rate(of.facts.n))
        priced += count * [multiplier]
    added = np.sort((chain.noise_std / bound).numpy())
    assert len(priced) == len(added) == sampling.steps(of.facts.n)
    assert (np.sort(priced) <= added * (1 + 1e-9)).all()
    assert (np.sort(priced) >= added / 1.021).all()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("problem", ["logistic", "network"])
def test_budgets_of_chains_share_noise_and_no_one_feels_another_or_other_seeds_rows(
    name: str, problem: str
) -> None:
    if not defined(name, problem):
        return
    epsilons, of = budgets(name), problem_of(problem)
    twice = run(name, problem, [epsilons[-1]] * len(epsilons))
    assert close(twice.theta[:, 0], twice.theta[:, -1]) != (name in OWN_NOISE)
    assert close(first(name, problem).theta[:, -1], twice.theta[:, -1])
    if problem == "logistic":
        others = replace(of, y=torch.cat([of.y[:1], -of.y[1:]]))
        changed = run(name, problem, epsilons, others).theta
        if name not in HMC:  # which tunes its steps on all seeds
            assert close(changed[0], first(name, problem).theta[0])
        assert not close(changed[1], first(name, problem).theta[1])


LEARNED = [(name, problem) for name, problem in CASES if problem not in NETWORKS or name in ("sgd", "dp_sgd")]


@pytest.mark.parametrize(("name", "problem"), sample(LEARNED, on_a_path))
def test_with_budget_enough_they_learn(name: str, problem: str) -> None:
    """The mean loss of the private rows falls from where theta starts."""
    of, epsilon = problem_of(problem), 200.0 if name in ALWAYS_PRIVATE else INF
    more = {"step": 0.01} if name == "sgd" and problem == "block" else {}
    theta = run(name, problem, [epsilon], **more).theta[:, :, -1]
    start = of.init(SEEDS, random.generator(0, "start"))[:, None]
    found, began = (mean_loss(of, at.float()) for at in (theta, start))
    assert bool((found < 0.95 * began).all())


def mean_loss(of: Any, theta: torch.Tensor) -> torch.Tensor:
    """``(S,)``, theta ``(S, 1, d)``."""
    if isinstance(of, Glm):
        return of.value_and_grad(theta)[0][:, 0] / of.n
    every = torch.arange(of.facts.n).expand(SEEDS, -1)
    sums = of.clipped_sum(
        theta, every, torch.ones(SEEDS, 1, of.facts.n, dtype=torch.bool), torch.tensor([INF])
    )
    return sums.loss[:, 0] / of.facts.n


# What a plan may know


@pytest.mark.parametrize(("name", "problem"), REFUSED)
def test_problems_that_a_method_is_not_for_are_refused_by_name(name: str, problem: str) -> None:
    why = (
        "not a network|not networks"
        if problem in NETWORKS
        else "not linear models|one margin|classes to vote|curvature has jumps"
    )
    with pytest.raises(ValueError, match=why):
        planned(name, problem, INF if name in UNBUDGETED else 1.0)


@pytest.mark.parametrize("name", [name for name in ON_NETWORKS if name != "pate"])
def test_networks_need_a_clip_and_steps_of_their_own(name: str) -> None:
    with pytest.raises(ValueError, match="give steps"):
        planned(name, "network", INF if name in UNBUDGETED else 1.0, unit="smoothness", step=0.05)
    if name not in UNBUDGETED and name != "dp_sgd":
        with pytest.raises(Exception, match=r"clip is null|need a clip|needs a bound on the gradient"):
            planned(name, "network", 1.0, clip=None)


@pytest.mark.parametrize(("name", "problem"), sample(CASES, first_problem))
def test_plans_are_free_of_rows_and_name_what_was_read_off_them(name: str, problem: str) -> None:
    """The facts are the same for all rows and labels; a plan that another private fact changes says so."""
    of, epsilon = problem_of(problem), INF if name in UNBUDGETED else 1.0
    assert replace(of, x=of.x.flip(0), y=of.y.roll(1)).facts == of.facts
    if problem in NETWORKS:
        return
    plans = []
    for share in (0.9, 0.8):
        read = of.facts._replace(
            mean_smoothness=share * of.facts.mean_smoothness, private={"mean_smoothness": "READ"}
        )
        method = make(
            name, problem, **({"unit": "mean_smoothness"} if "unit" in parameters().method[name] else {})
        )
        plans.append(method.plan(read, Budget(epsilon, DELTA)))
    one, other = ([*noise(p.work), *(p.work.step if isinstance(p.work, Chain) else ())] for p in plans)
    assert one == other or all("READ" in plan.guarantee.assumptions for plan in plans) or epsilon == INF


@pytest.mark.parametrize("name", METHODS)
def test_budgets_that_cannot_be_kept_are_refused(name: str) -> None:
    facts = problem_of("logistic").facts
    if name in UNBUDGETED:
        with pytest.raises(ValueError, match=r"keeps no budget: epsilon must be inf, not 1\.0"):
            planned(name, "logistic", 1.0)
    elif name in PURE:
        assert make(name).plan(facts, Budget(1.0, 0.0)).guarantee.delta == 0
    else:
        with pytest.raises(ValueError, match=r"delta > 0, not 0|delta = 0.* out of reach"):
            make(name).plan(facts, Budget(1.0, 0.0))
    if name in ALWAYS_PRIVATE:
        with pytest.raises(ValueError, match="needs a budget"):
            planned(name, "logistic", INF)


@pytest.mark.parametrize("name", [name for name in METHODS if hasattr(METHODS[name](), "sampling")])
def test_minibatches_have_the_size_and_the_scheme_that_is_priced(name: str) -> None:
    facts, epsilon = problem_of("logistic").facts, INF if name in UNBUDGETED else 1.0
    with pytest.raises(ValueError, match=r"batch = 201 is larger than the data set \(200 rows\)"):
        make(name, sampling={"batch": 201}).plan(facts, Budget(epsilon, DELTA))
    if name not in (*UNBUDGETED, "dp_sgld_ryffel2022"):  # which is priced for samples of either kind
        other = {"poisson": "subset", "subset": "poisson"}[parameters().method[name].sampling.scheme]
        with pytest.raises(Exception, match=r"is priced for .* samples, not"):
            make(name, sampling={"scheme": other})


@pytest.mark.parametrize("name", ["dp_sgd", "dp_sgld_li2019", "dpvi", "objpert", "pate"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_either_adjacency_with_an_accountant_that_has_it(name: str, adjacency: str) -> None:
    tight: dict[str, Any] = {"adjacency": adjacency, "accountant": {"_target_": f"{Tight.__module__}.Tight"}}
    more = {"vote": tight} if name == "pate" else {**tight, "share": 0.05} if name == "objpert" else tight
    guarantee = planned(name, "logistic", 0.5, **more).guarantee
    assert guarantee.adjacency == adjacency
    assert 0.499 < Tight().epsilon(guarantee.event, DELTA, guarantee.adjacency) == guarantee.epsilon <= 0.5


# Rows that a hyperplane separates: without a ridge or a ball there is no best theta


@pytest.mark.parametrize(
    ("data", "loss"),
    [pytest.param("breast_cancer", "softmax", marks=pytest.mark.slow), ("three_rows", "logistic")],
)
@pytest.mark.parametrize("name", METHODS)
def test_on_separable_rows_releases_are_finite_with_privacy_and_without(
    name: str, data: str, loss: str
) -> None:
    if not defined(name, loss):
        return
    changes: dict[str, Any] = {}
    if data == "three_rows":
        two = {"sampling": {"batch": 2, "epochs": 2}}
        changes = {"first": {}, "second": two} if "first" in parameters().method[name] else {}
        changes = two if hasattr(METHODS[name](), "sampling") else changes
        vote = {"queries": 3, "fewest": 1, "threshold": 2.0, "asked": 3.0}
        changes = {"teachers": 3, "vote": vote} if name == "pate" else changes
    method, of = make(name, **changes), public(separable(data, loss))
    epsilons = [INF] if name in UNBUDGETED else [1.0] if name in ALWAYS_PRIVATE else [1.0, INF]
    wanted = [Budget(epsilon, DELTA) for epsilon in epsilons]
    if (name, data) == ("dp_sgfs", "three_rows"):
        with pytest.raises(
            ValueError, match="batch = 2 is too small: Lemma 6 needs more than 4 rows; raise batch"
        ):
            method.plan(of.facts, wanted[0])
        return
    assert bool(released(method, of, wanted, SEEDS, random.generator(0, name))[0].theta.isfinite().all())


POISSON = {"_target_": "dplangevin.problems.sampling.Sampling", "scheme": "poisson", "batch": 20, "epochs": 5}
SHORT = {"clip": 0.5}  # shorter than the gradients of logistic regression on rows of norm 1
FALLING = {"sampling": POISSON, "schedule": "ryffel2022", "l2": 50.0, **SHORT}
CUT = ("dp_sgld", "dp_sghmc", "dp_sgnht", "dp_sgld_ryffel2022")  # a curve needs a clip; these may do without


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        # the update of DP-SGFS reads rows
        *((name, SHORT if name in CUT else {}) for name in METHODS if name != "dp_sgfs"),
        ("dp_sgld_ryffel2022", FALLING),
    ],
)
def test_all_steps_of_a_chain_cost_what_the_plan_costs(name: str, changes: dict[str, Any]) -> None:
    """The prices along a learning curve end at that of the plan, in every sampling scheme and schedule."""
    facts = problem_of("logistic").facts
    plan = make(name, **changes).plan(facts, Budget(INF if name in UNBUDGETED else 1.0, DELTA))
    if not isinstance(plan.work, Chain):
        return
    found = pricing.spent(plan, facts, len(plan.work.step), DELTA)
    assert found == pytest.approx(pricing.both(pricing.visible(plan), DELTA), rel=1e-6, nan_ok=True)
