"""dp_accounting's Renyi accountant, under this project's convention for the noise multiplier."""

import math
from dataclasses import dataclass

from dp_accounting import DpEvent, GaussianDpEvent, NeighboringRelation
from dp_accounting import PoissonSampledDpEvent as Poisson
from dp_accounting import SampledWithoutReplacementDpEvent as WithoutReplacement
from dp_accounting.rdp import RdpAccountant

from dplangevin.privacy.accountants.protocol import leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, check_adjacency


@dataclass(frozen=True)
class Rdp:
    """Renyi differential privacy of Gaussian steps (Mironov 2017), at dp_accounting's default orders.

    add_remove: full steps and Poisson sampling (Mironov, Talwar, Zhang 2019). replace_one: full steps and
    sampling without replacement (Wang, Balle, Kasiviswanathan 2019). dp_accounting's multiplier is relative
    to the sensitivity here, so under replace_one it is given half of ours.
    """

    name: str = "RDP"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Epsilon at delta; inf at delta = 0. ValueError for a sampling that the adjacency does not fit."""
        check_adjacency(adjacency, who=self.name)
        price = trivial(event, delta)
        if price is not None:
            return price
        replace = adjacency == "replace_one"
        relation = NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = RdpAccountant(neighboring_relation=relation)
        for leaf, count in leaves(event):
            gaussian = leaf if isinstance(leaf, GaussianDpEvent) else getattr(leaf, "event", None)
            if not isinstance(gaussian, GaussianDpEvent):
                raise refuse(self.name, leaf, "it prices Gaussian steps, sampled or full")
            if gaussian.noise_multiplier == 0:
                return math.inf
            step = GaussianDpEvent(gaussian.noise_multiplier / (2 if replace else 1))
            if isinstance(leaf, GaussianDpEvent):
                accountant.compose(step, count)
            elif isinstance(leaf, Poisson) and not replace:
                accountant.compose(Poisson(leaf.sampling_probability, step), count)
            elif isinstance(leaf, WithoutReplacement) and replace:
                sampled = WithoutReplacement(leaf.source_dataset_size, leaf.sample_size, step)
                accountant.compose(sampled, count)
            else:
                raise refuse(
                    self.name, leaf, "Poisson sampling needs add_remove, without replacement replace_one"
                )
        return float(accountant.get_epsilon(delta))
