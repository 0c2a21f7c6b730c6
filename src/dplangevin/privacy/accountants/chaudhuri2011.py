"""Pure objective perturbation: Chaudhuri, Monteleoni, Sarwate (2011), Theorem 9 for Algorithm 2."""

from dataclasses import dataclass

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Theorem, refuse
from dplangevin.privacy.events import Adjacency, PureObjectivePerturbationDpEvent


@dataclass(frozen=True)
class Chaudhuri2011(Theorem):
    """Accountant of pure objective perturbation.

    epsilon = eps' + r log(1 + 2c/(n Lambda) + c^2/(n Lambda)^2), with r = 1 in the paper, eps' = 2 L rate, c =
    smoothness and n Lambda = ridge.

    The paper's Algorithm 2 draws b with a density proportional to exp(-eps' ||b|| / 2) for a 1-Lipschitz loss. The
    proof is for replace_one (the paper's neighbours differ in one entry) and for one margin.
    Differs: for K margins r = rank. Each of the two records changes the determinant by a factor of at most (1 + c/(n
    Lambda))^r, see `objective`. The theorem is about the exact minimiser. The noise that covers the solver's error
    adds its own pure epsilon.
    """

    name: str = "Chaudhuri et al. 2011"
    adjacencies = ("replace_one",)

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        if not isinstance(event, PureObjectivePerturbationDpEvent):
            raise refuse(self.name, event, "it prices pure objective perturbation only")
        return 2 * event.lipschitz * event.rate + 2 * event.log_determinant + event.output_epsilon
