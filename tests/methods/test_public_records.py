"""Whether the number of records decides what a method does, and whether the price of the method says so."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from typer.testing import CliRunner

from dplangevin import facts as public_facts
from dplangevin.cli import app
from dplangevin.cli.mechanism_options import Options, planned
from dplangevin.methods.pricing import what_is_done
from dplangevin.methods.registry import METHODS, named
from dplangevin.privacy import Budget
from dplangevin.privacy.survey import N_PUBLIC, records_public
from dplangevin.problems import Facts

PRIVATE = sorted(name for name in METHODS if named(name).budgeted)
# what these do with n and with n + 1 records is the same
WITHOUT_N = {"objpert", "objpert_tight", "objpert_pure", "ops", "ops_gdp"}


def options(name: str) -> Options:
    return Options(method=name, records=3000, epsilon=1.0, public_rows=1000)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_price_says_that_n_is_public_where_the_event_depends_on_it(name: str) -> None:
    says = N_PUBLIC in planned(options(name)).assumptions
    first, second = (planned(replace(options(name), records=n)).event for n in (3000, 3001))
    assert says or first == second
    assert says is (name not in WITHOUT_N)


@dataclass(frozen=True)
class HiddenN:
    """A method whose event is that of any n, and whose prior is not."""

    inner: Any

    def plan(self, facts: Facts, budget: Budget) -> Any:
        plan = self.inner.plan(facts, budget)
        return plan._replace(settings={**plan.settings, "l2": 1.0})


def test_a_prior_that_depends_on_n_is_found() -> None:
    budget = Budget(1.0, 1e-5)
    method, facts = named("objpert"), public_facts(3000, 5)
    assert records_public(what_is_done(method, facts, budget), facts.n) == ()
    assert records_public(what_is_done(HiddenN(method), facts, budget), facts.n) == (N_PUBLIC,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "says"),
    [("--batch 128", True), ("--sampling random_allocation --batch 128", True), ("--sampling full", False)],
)
def test_gaussian_steps_say_it_where_a_rate_depends_on_n(words: str, says: bool) -> None:
    found = CliRunner().invoke(app, f"price --records 6000 {words} --noise 4 --steps 3".split())
    assert found.exit_code == 0, found.stderr
    assert ("n is taken as public" in found.stdout) is says
