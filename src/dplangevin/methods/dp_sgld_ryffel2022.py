"""DP-SGLD as ryffel2022 defines it (DP-Langevin): only the last iterate is released."""

import math
from dataclasses import dataclass, field
from typing import Literal

import attr
from dp_accounting import DpEvent

from dplangevin.checks import positive, require
from dplangevin.methods import ChainMethod, Plan
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import noise_for
from dplangevin.privacy.events import PUBLIC_RECORDS, LangevinDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.gaussian_steps import composed_steps
from dplangevin.problems import Facts
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.steps import Steps, Unit, shown

# sampling schemes for which no bound on the last iterate alone is known
WITHOUT_LAST = {"shuffled": "epochs are shuffled", "poisson": "minibatches are Poisson samples"}


@dataclass(frozen=True)
class DpSgldRyffel2022(ChainMethod):
    """DP-Langevin, Algorithm 1 of Ryffel, Bach and Pointcheval (2022), which releases only the last iterate.

    One step is::

        theta <- Proj_C(theta - eta_k (mean of clipped gradients + l2 theta) + sqrt(2 eta_k) sigma N(0, I))

    The mean is over a uniform subset of tau rows, drawn anew at each step, or over the next tau rows of a shuffled
    epoch.  On Poisson samples it is the sum divided by tau.  `step` = 1/2 in units of the smoothness of the mean
    loss gives the steps of section 5.2.  The last-iterate bound (Bok2024) holds with smoothness row_bound^2/2 + l2
    while no gradient is clipped.  A clipped softmax gradient need not be the gradient of any convex function, so
    then all iterates are priced.

    Source: ryffel2022, Algorithm 1, Theorem 3.1 and section 5.2; bok2024.
    Differs: the theorem bounds gradients of the whole loss.  Here only the part that depends on the record is
    clipped.  The L2 penalty needs no data and cancels in the difference of two neighbours.

    Attributes
    ----------
    l2 : float, > 0.  Weight of the L2 penalty on the mean loss.
    accountant : `Ryffel2022`, Theorem 3.1 with K counted in steps; or `Tight`, the smaller of the privacy loss
        distribution of all iterates and the last-iterate bound.
    step, unit, schedule : Step sizes, as in `samplers.chains.steps`.
    clip : float, > 0, or None.  L is the smaller of `clip` and the problem's bound on gradients.
    noise_std : float, > 0, or None.  sigma; None: the smallest that `accountant` allows.
    radius : float, > 0, or None.  Radius of the ball C; None for the whole space.
    initial : "theorem": theta_0 ~ Proj_C N(0, 2 sigma^2/l2 I).  "code": the standard deviation is 2 sigma^2/l2, as
        in the authors' code.  "zero": theta_0 = 0.  The theorem covers only the first.
    """

    schemes = ("subset", "shuffled", "poisson")
    sampling: Sampling = field(default_factory=lambda: Sampling("subset", epochs=30))
    l2: float = 0.001
    accountant: Accountant = field(default_factory=Tight)
    step: float = 0.5
    unit: Unit = "mean_smoothness"
    schedule: Literal["constant", "ryffel2022"] = "constant"
    clip: float | None = None
    noise_std: float | None = None
    radius: float | None = None
    initial: Literal["theorem", "code", "zero"] = "theorem"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(l2=self.l2)

    @property
    def steps(self) -> Steps:
        return Steps(self.step, self.unit, self.schedule)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        require(budget.epsilon < math.inf, "dp_sgld_ryffel2022 needs a budget: sgd is its limit without one")
        n, sigma, noise_given = facts.n, self.calibrated(facts, budget), self.noise_std is not None
        paper, proven = self.event(facts, sigma), self.provable(facts, sigma)
        by_paper = noise_given or isinstance(self.accountant, Ryffel2022)
        eta = self.steps.sizes(facts, self.sampling.steps(n), self.l2)
        starts = {"theorem": sigma * math.sqrt(2 / self.l2), "code": 2 * sigma**2 / self.l2, "zero": 0.0}
        chain = self.chain(
            facts,
            eta,
            self.sampling.size(n) * sigma * (2 / eta).sqrt(),
            clip=self.limit(facts) if self.clips(facts) else math.inf,
            l2=self.l2,
            radius=math.inf if self.radius is None else self.radius,
            start_std=starts[self.initial],
        )
        assumptions = PUBLIC_RECORDS, *facts.rows, *self.steps.read(facts), self.convexity(proven)
        promise = self.promise(budget, paper if by_paper else proven, assumptions, "final")
        settings = {
            "schedule": shown(self.schedule),
            "calibration": "published" if noise_given else "formula" if by_paper else "tight",
            "noise_std": sigma,
            "noise_multiplier": float(paper.multipliers()[0]),
            "clip": paper.lipschitz,
            "smoothness": paper.smoothness,
        }
        violated = tuple(self.violated(facts, paper, budget.delta))
        return Plan(promise._replace(event=proven), chain, settings, noise_given, violated, paper)

    def convexity(self, proven: DpEvent) -> str:
        """Return whether a last-iterate bound is known for the event, and for which losses."""
        if self.sampling.scheme in WITHOUT_LAST:
            return f"no last-iterate bound: {WITHOUT_LAST[self.sampling.scheme]}"
        if not isinstance(proven, LangevinDpEvent):
            return (
                "no last-iterate bound: a clipped softmax gradient need not be the gradient of a convex loss"
            )
        return f"last-iterate bound: every record's loss {proven.smoothness:.4g}-smooth"

    def limit(self, facts: Facts) -> float:
        """Return L, which no gradient exceeds; raise ValueError if there is neither a clip nor a bound."""
        limit = min(facts.lipschitz, math.inf if self.clip is None else self.clip)
        require(limit < math.inf, "gradients without a bound need a clip: set clip, or bound the rows")
        return limit

    def clips(self, facts: Facts) -> bool:
        return facts.lipschitz > self.limit(facts) * (1 + 1e-9)

    def event(self, facts: Facts, noise: float) -> LangevinDpEvent:
        """Return the event of the last iterate for sigma, with the smoothness of the mean loss as in the paper.

        A network has no known smoothness; its event has that for which `step` is the step of section 5.2.
        """
        first, beta = self.steps.first(facts, self.l2), facts.mean_smoothness + self.l2
        return LangevinDpEvent(
            records=facts.n,
            batch=self.sampling.size(facts.n),
            steps=self.sampling.steps(facts.n),
            step_size=first,
            noise_std=noise,
            lipschitz=self.limit(facts),
            strong_convexity=self.l2,
            smoothness=beta if beta < math.inf else max(1 / (2 * first), self.l2),
            decay=self.l2 / 2 if self.schedule == "ryffel2022" else 0.0,
        )

    def provable(self, facts: Facts, noise: float) -> DpEvent:
        """Return the event for `Tight`: the last iterate, with every record's smoothness, or else all iterates."""
        event = self.event(facts, noise)
        if self.sampling.scheme == "shuffled":
            return ShuffledEpochsDpEvent.of(self.sampling.per_epoch(facts.n), event.multipliers())
        if self.sampling.scheme == "poisson":
            return composed_steps(facts.n, event.batch, event.multipliers(), poisson=True)
        if self.clips(facts):
            return event.all_iterates()
        radius = math.inf if self.radius is None else self.radius
        return attr.evolve(event, smoothness=facts.smoothness + self.l2, radius=radius)

    def calibrated(self, facts: Facts, budget: Budget) -> float:
        """Return sigma: `noise_std`, or the smallest that the accountant allows for the budget."""
        if self.noise_std is not None:
            return self.noise_std
        unit = float(1 / self.event(facts, 1.0).multipliers()[0])  # sigma at noise multiplier 1
        make = self.event if isinstance(self.accountant, Ryffel2022) else self.provable
        low, high = 1e-2 * unit, 1e5 * unit
        return noise_for(self.accountant, lambda sigma: make(facts, sigma), budget, low=low, high=high)

    def violated(self, facts: Facts, event: LangevinDpEvent, delta: float) -> list[str]:
        """Return the conditions of Theorem 3.1 that this run does not satisfy."""
        notes = list(Ryffel2022().violated(event, delta))
        if facts.loss is None:
            notes.append("Theorem 3.1 is proved for convex losses")
        if event.batch < event.records:
            notes.append(f"Theorem 3.1 is proved for full batches: batch {event.batch} of {event.records}")
        if self.clips(facts):
            notes.append(f"gradients up to {facts.lipschitz:.4g} are clipped at {event.lipschitz:.4g}")
        if self.initial != "theorem":
            other = "theta_0 = 0" if self.initial == "zero" else "theta_0 has the deviation 2 sigma^2/lambda"
            notes.append(f"Theorem 3.1 starts at N(0, 2 sigma^2/lambda): {other}")
        return notes
