"""Google's dp-accounting as a reference, under this project's convention for the noise multiplier."""

from dataclasses import dataclass

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    SelfComposedDpEvent,
    UnsupportedEventError,
)
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.gaussian_steps import is_subsampled, rate_and_multiplier

RELATIONS = {
    "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": NeighboringRelation.REPLACE_ONE,
}
MOST = 10**7, 100.0  # steps and epsilon; beyond them the grid takes minutes and gigabytes
FAINTEST = 0.2  # below this noise multiplier the grid takes gigabytes


@dataclass(frozen=True)
class DpAccounting(Theorem):
    """dp-accounting's `PLDAccountant` for at most 1e7 Gaussian steps of multiplier 0.2 or more, sampled or not."""

    name = "dp-accounting (PLD)"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        steps = [SelfComposedDpEvent(leaf, count) for leaf, count in leaves(event)]
        for leaf in (step.event for step in steps):
            if not isinstance(leaf.event if is_subsampled(leaf) else leaf, GaussianDpEvent):
                raise refuse(self.name, leaf, "it is asked about Gaussian steps only")
            if rate_and_multiplier(leaf)[1] < FAINTEST:
                raise refuse(self.name, leaf, f"its grid is too large below a noise multiplier of {FAINTEST}")
        accountant = PLDAccountant(neighboring_relation=RELATIONS[adjacency])
        try:
            if (
                sum(step.count for step in steps) > MOST[0]
                or Tight().epsilon(event, delta, adjacency) > MOST[1]
            ):
                raise refuse(
                    self.name, event, f"its grid is too large beyond {MOST[0]:.0e} steps or epsilon 100"
                )
            accountant.compose(ComposedDpEvent(steps))
        except UnsupportedEventError as error:
            raise refuse(self.name, event, "it has no such sampling for these neighbours") from error
        return float(accountant.get_epsilon(delta))
