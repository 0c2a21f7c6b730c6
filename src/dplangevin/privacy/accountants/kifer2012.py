"""Objective perturbation with Gaussian noise: Kifer, Smith, Thakurta (2012), Theorem 2."""

import math
from dataclasses import dataclass

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.objective import log_tail, with_output
from dplangevin.privacy.accountants.protocol import Theorem, refuse
from dplangevin.privacy.events import Adjacency, ObjectivePerturbationDpEvent


@dataclass(frozen=True)
class Kifer2012(Theorem):
    """Accountant of objective perturbation with Gaussian noise.

    Its epsilon is the smallest that satisfies both conditions of the theorem. On the sum scale, with ridge = Lambda:

        noise_std^2 >= L^2 (8 ln(2/delta) + 4 epsilon) / epsilon^2   and   Lambda >= 2 beta / epsilon.

    They are for one margin (a Hessian of rank 1). With K margins a record's gradient moves within a space of dimension
    r = rank: ln(2/delta) becomes `log_tail`, the tail of a chi variable, which is larger from r = 3 on. The
    log-determinant becomes r log(1 + beta/Lambda), so Lambda >= 2 r beta / epsilon (`objective` has the argument).

    The theorem is for add_remove. Replace_one costs 1.5 times that, for losses of the margin, by the following
    argument. Write l = ln(2/delta) and eps' for the add_remove epsilon.

    Both Hessians are a shared A >= Lambda I plus a rank-one term of size at most beta. So the log-ratio of the
    determinants is at most log(1 + beta/Lambda) <= eps'/2, as for add_remove. In the Gaussian part the shift is c u -
    c' u' with ||u||, ||u'|| <= 1 and ``|c|, |c'| <= L``. With probability at least 1 - delta neither ``|<b, u>|`` nor
    ``|<b, u'>|`` exceeds noise_std sqrt(2 l). Then this part is at most (2 L/noise_std) sqrt(2 l) + 2 L^2/noise_std^2 =
    eps' ((1+u)^(-1/2) + u/(2(1+u))) with u = eps'/(2 l). With w = (1+u)^(-1/2) the factor is w + (1 - w^2)/2 = 1 - (1 -
    w)^2/2 <= 1. Together the parts cost at most 1.5 eps'.

    Differs: the theorem has no replace_one statement and none for a rank above 1. It is about the exact minimiser. The
    noise that covers the solver's error costs extra (`objective.with_output`).
    """

    name: str = "Kifer et al. 2012"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        if not isinstance(event, ObjectivePerturbationDpEvent):
            raise refuse(self.name, event, "it prices objective perturbation with Gaussian noise only")
        if delta == 0:
            return math.inf
        ratio = (event.lipschitz / event.noise_std) ** 2
        curvature = 2 * event.rank * event.smoothness / event.ridge

        def theorem(spare: float) -> float:
            """Return the theorem's epsilon at the part of delta that is left for the minimiser."""
            noise = 2 * ratio + math.sqrt(4 * ratio**2 + 8 * ratio * log_tail(spare, event.rank))
            return max(noise, curvature) * (1.5 if adjacency == "replace_one" else 1.0)

        return with_output(event, delta, theorem)
