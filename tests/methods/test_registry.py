"""What a method is without a YAML file: its class's defaults are the settings of conf/method."""

from dataclasses import fields, replace
from typing import Any

import pytest
from composed import parameters
from hydra.utils import instantiate
from scenarios import logistic

from dplangevin.methods import Method
from dplangevin.methods.registry import METHODS, named
from dplangevin.pipeline.plan import plain
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.sampling import Sampling


def test_every_method_has_a_name() -> None:
    assert set(METHODS) == set(parameters().method)


@pytest.mark.parametrize("name", METHODS)
def test_defaults_are_the_settings_of_the_yaml_file(name: str) -> None:
    """Each field is stated there, so that `dplangevin price` and an experiment mean one mechanism by one name."""
    made: Any = METHODS[name]()
    entry = plain(parameters().method[name])
    assert made == instantiate(entry)
    assert set(entry) - {"_target_"} == {field.name for field in fields(made)}


def test_names_and_methods_are_taken_and_others_refused() -> None:
    mine: Method = named("ops")
    assert named(mine) is mine
    with pytest.raises(ValueError, match=r"method 'dpv' is unknown; did you mean dpvi.*known: nonprivate, "):
        named("dpv")
    for wrong, why in (
        (None, "method None has no plan and release"),
        (METHODS["ops"], "method Ops is a class"),
    ):
        with pytest.raises(ValueError, match=why):
            named(wrong)  # type: ignore[arg-type]


def test_random_allocation_is_calibrated_and_needs_an_accountant_that_prices_it() -> None:
    drawn, dp_sgd = Sampling("random_allocation", batch=100, epochs=3), METHODS["dp_sgd"]
    facts, budget = logistic(1, 1000).facts, Budget(1.0, 1e-5)
    method: Any = dp_sgd(sampling=drawn, accountant=Tight())
    guarantee = method.plan(facts, budget).guarantee
    assert guarantee.sampling == "random_allocation"
    assert 0.999 <= guarantee.epsilon <= 1
    with pytest.raises(ValueError, match="cannot price RandomAllocationDpEvent"):
        replace(method, accountant=Moments(64)).plan(facts, budget)
