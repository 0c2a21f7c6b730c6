"""The price of SGHMC's own noise, for a record whose gradient has a given norm."""

import pytest
from loading import analysis

from dplangevin.methods.dp_sghmc import DpSghmcLi2019
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts
from dplangevin.problems.sampling import Sampling


def test_the_price_is_that_of_the_method_with_that_clip_and_no_attack_exceeds_it() -> None:
    sizes = {"records": 1000, "batch": 50, "epochs": 2, "step": 0.1, "friction": 0.2}
    made = analysis("li2019_gan_noise", norms=[0.1, 2.0], runs=20_000, **sizes)
    found = [row for unit in made.units() for row in made.rows(unit, 3)]
    for row in found:
        method = DpSghmcLi2019(
            step=0.1, clip=row["norm"], calibrated=None, friction=0.2, unit="absolute",
            sampling=Sampling("poisson", 50, 2), accountant=Tight(),
        )  # fmt: skip
        plan = method.plan(Facts(1000, 5, 2), Budget(1.0, row["delta"]))
        assert plan.settings["noise_multiplier"] == pytest.approx(row["noise_multiplier"], rel=1e-12)
        assert plan.guarantee.epsilon == pytest.approx(row["epsilon_add_remove"], rel=1e-9)
        for kind in ("add_remove", "replace_one"):
            assert 0 <= row[f"attack_{kind}"] <= row[f"epsilon_{kind}"]
        assert row["epsilon_moments"] >= row["epsilon_add_remove"]
    assert found[1]["epsilon_replace_one"] > found[0]["epsilon_replace_one"]
    assert found[1]["attack_replace_one"] > 0.3 * found[1]["epsilon_replace_one"]
