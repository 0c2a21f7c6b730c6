"""SGLD with differential privacy, as three papers define it, and SGLD without privacy.

The papers differ in the step size, in the source of the noise and in the sampling of minibatches:

    `DpSgldWang2015`     uniform subsets, noise by Theorem 4, units of the summed loss
    `DpSgldLi2019`       Poisson samples of clipped gradients, noise determined by the step size
    `DpSgldRyffel2022`   uniform subsets, only the last iterate is released, noise sqrt(2 eta) sigma
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import attr
import torch
from dp_accounting import DpEvent

from dplangevin.checks import positive, require
from dplangevin.methods import ChainMethod, Plan, guaranteed, no_budget
from dplangevin.methods.dp_sgd import (
    CHOSEN,
    MOMENTS,
    check_chain,
    check_scheme,
    on_subsets,
    record_bound,
    without_privacy,
)
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import LangevinDpEvent, SamplingScheme, ShuffledEpochsDpEvent
from dplangevin.privacy.stepsize import StepSchedule, multiplier_of, smallest_multiplier, step_of, steps_event
from dplangevin.privacy.subsampled_gaussian import composed_steps
from dplangevin.privacy.wang2015_noise import gradient_variance, subset_event
from dplangevin.problems import Facts
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import POISSON, SUBSETS, Sampling
from dplangevin.samplers.chains.chain import thinned
from dplangevin.samplers.chains.steps import Steps, Unit, shown

Temperature = Literal["printed", "proper"]
HEAT = {"printed": 1.0, "proper": 2.0}  # noise variance in units of the step size of the summed loss
# sampling schemes for which no bound on the last iterate alone is known
WITHOUT_LAST = {"shuffled": "epochs are shuffled", "poisson": "minibatches are Poisson samples"}


@dataclass(frozen=True)
class DpSgldWang2015(ChainMethod):
    """DP-SGLD, Algorithm 2 of Wang, Fienberg and Smola (2015).

    One step is, with ``z ~ N(0, max(C eta_t^2, eta_t) I)``::

        theta <- theta - eta_t (grad r + n/tau sum_S grad l) + z

    C is the gradient noise of Theorem 4 (`wang2015_noise.gradient_variance`).  If eta_t is below 1/C, the
    Langevin noise alone is enough for privacy.  theta_1 = 0 unless `start` is given.  All iterates are
    released.

    The schedules are those of section 4.1, with ``eta_0 = min(1/C, most)`` and ``most = step/n``:

    - "phase": ``eta_t = alpha (n T/tau)/(C t)``; the last (1 - alpha) of the steps are then plain SGLD.
    - "constant": eta_0.
    - "harmonic": ``max(1/(t + 1), eta_0)`` as printed, which is far from stable for losses summed over n
      rows.

    Differs: the phase schedule is cut at `most`; without the cut it has no finite value at eps = inf.

    Attributes
    ----------
    schedule : "phase", "constant" or "harmonic".
    step, unit : Largest step size, as in `samplers.chains.steps`.
    precision : float, >= 0.  Precision of the Gaussian prior.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    alpha : float in (0, 1).  Share of the steps in the first phase.
    temperature : "printed": the noise above; N(0, eta) makes exp(-2U) the target, not the posterior.
        "proper": the variance is ``max(C eta_t^2, 2 eta_t)``, which targets exp(-U) and costs no more
        privacy.
    clip : float, > 0, or None.  Bound on a record's gradient if the problem has none.  L is the smaller of
        both bounds.

    References
    ----------
    wang2015, Algorithm 2, Theorem 4 and section 4.1.
    """

    budgeted: ClassVar[bool] = True
    schedule: Literal["phase", "constant", "harmonic"] = "phase"
    step: float = 0.5
    precision: float = 0.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = field(default_factory=Wang2015)
    sampling: Sampling = SUBSETS
    alpha: float = 0.5
    temperature: Temperature = "printed"
    clip: float | None = None
    unit: Unit = "smoothness"

    def __post_init__(self) -> None:
        known = ("phase", "constant", "harmonic")
        require(self.schedule in known, f"schedule must be one of {known}, not {self.schedule!r}")
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        check_scheme("dp_sgld", self.sampling, "subset")
        require(0 < self.alpha < 1, f"alpha must be in (0, 1), not {self.alpha}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, steps, size = facts.n, self.sampling.steps(facts.n), self.sampling.size(facts.n)
        bound = record_bound(facts, self.clip, "dp_sgld", budget)
        variance = gradient_variance(steps, bound, budget)
        size_of = Steps(self.step, self.unit)
        eta = self.step_sizes(size_of.first(facts) / n, steps, variance)
        std = torch.maximum(variance * eta**2, HEAT[self.temperature] * eta).sqrt()
        noise = std / eta * (size / n)  # on the sum of the minibatch
        event = subset_event(n, size, noise / bound) if budget.epsilon < math.inf else None
        chain = Chain(
            step=eta * n,
            noise_std=noise,
            sampling=self.sampling,
            clip=math.inf if self.clip is None else self.clip,
            l2=self.precision / n,
            keep=thinned(steps, self.burn_in, self.samples),
        )
        guarantee = on_subsets(self.accountant, event, budget, facts, size_of)
        return Plan(guarantee, chain, {"schedule": self.schedule, "noise_std": float(noise[0])})

    def step_sizes(self, most: float, steps: int, variance: float) -> torch.Tensor:
        """Return eta_t, ``(steps,)``.

        Parameters
        ----------
        most : float.  Largest step size of "phase" and "constant".
        variance : float.  C, the gradient noise of Theorem 4; 0 without privacy.
        """
        t = torch.arange(1, steps + 1, dtype=torch.float64)
        largest = min(most, 1 / variance) if variance > 0 else most  # eta_0
        if self.schedule == "phase":
            return (
                (self.alpha * steps / (variance * t)).clamp(max=most)
                if variance > 0
                else torch.full_like(t, most)
            )
        if self.schedule == "harmonic":
            return (1 / (t + 1)).clamp(min=largest)
        return torch.full_like(t, largest)


@dataclass(frozen=True)
class DpSgldLi2019(ChainMethod):
    """DP-SGLD, Algorithm 1 of Li, Chen, Liu and Carin (2019).

    One step is::

        theta <- theta - eta_t ((1/tau) sum_S clipped(grad l) + precision/n theta) + z,    z ~ N(0, eta_t/n I)

    S is a Poisson sample with rate q = tau/n.  Clipped gradients have norm at most L.  So the noise
    multiplier is ``sigma_t = tau/(L sqrt(eta_t n))``.  All iterates are released.

    Differs: the paper prints ``- eta grad log``; we read it as minus the gradient of the loss and of -log
    prior.
    Differs: without a budget (eps = inf) gradients are clipped all the same; `Sgld` does not clip.
    Differs: clipped = "minibatch" does not follow Algorithm 1, whose privacy needs "record"; we price what it
    does.

    Attributes
    ----------
    schedule : "fixed", or "decreasing": ``eta_t = eta_1 t^(-1/3)``.
    step, unit : The step size ``step/unit``, as in `samplers.chains.steps`; step None: no limit on the step size.
    clip : float, > 0, or None.  L.
    precision : float, >= 0.  Precision of the Gaussian prior.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    calibrated : What is fitted to the smallest sigma_1 that `accountant` allows.  "step": eta_1 is the
        largest step size that the budget allows, and at most `step`; at this limit the chain is standard SGLD
        and costs less than the budget.  "clip": L follows from `step`.  None: step and clip are both given.
        Then the budget is what is claimed, and the event may cost more.
    temperature : "printed": the noise above, which targets exp(-2U).  "proper": z ~ N(0, 2 eta_t/n), which
        targets exp(-U), with ``sigma_t = tau/(L sqrt(eta_t n/2))``.  Neither is the target if a gradient is
        clipped.
    adjacency : The neighbour relation for which the accountant calibrates.
    clipped : What has norm at most `clip`.  "record": each record's gradient, as in the algorithm.
        "minibatch": the mean gradient of a minibatch, as many implementations clip.  Then one record moves
        the mean by up to 2 L instead of L/tau, and sigma is 2 tau times smaller.

    References
    ----------
    li2019, Algorithm 1.
    """

    budgeted: ClassVar[bool] = True
    name: ClassVar[str] = "dp_sgld_li2019"
    schedule: StepSchedule = "fixed"
    step: float | None = 0.5
    clip: float | None = 1.0
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = MOMENTS
    sampling: Sampling = POISSON
    calibrated: Literal["step", "clip"] | None = "step"
    unit: Unit = "smoothness"
    temperature: Temperature = "printed"
    adjacency: Adjacency = "add_remove"
    clipped: Literal["record", "minibatch"] = "record"

    def __post_init__(self) -> None:
        check_schedule(self.schedule)
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        check_scheme(self.name, self.sampling, "poisson")
        known = ("step", "clip", None)
        require(self.calibrated in known, f"calibrated must be one of {known}, not {self.calibrated!r}")
        for name in ("step", "clip"):
            if (value := getattr(self, name)) is not None:
                positive(**{name: value})
        by = ("record", "minibatch")
        require(self.clipped in by, f"clipped must be one of {by}, not {self.clipped!r}")
        wanted = {"step": ("clip",), "clip": ("step",), None: ("step", "clip")}[self.calibrated]
        for name in wanted:
            require(
                getattr(self, name) is not None, f"{name} is null: give it, or let it follow from the budget"
            )

    @property
    def heat(self) -> float:
        """The variance of a step's noise in units of eta_t/n."""
        return HEAT[self.temperature]

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, steps, rate = facts.n, self.sampling.steps(facts.n), self.sampling.rate(facts.n)
        step, clip, sigma = self.settled(facts, budget)
        eta = langevin_steps(step, steps, self.schedule)
        noise = self.sampling.size(n) * (self.heat / (eta * n)).sqrt()
        private = budget.epsilon < math.inf
        event = steps_event(sigma, rate=rate, steps=steps, schedule=self.schedule) if private else None
        keep = thinned(steps, self.burn_in, self.samples)
        bounds = {"clip": clip} if self.clipped == "record" else {"mean_clip": clip}
        chain = Chain(eta, noise, self.sampling, l2=self.precision / n, keep=keep, **bounds)
        read = () if self.step is None else Steps(self.step, self.unit).read(facts)
        by = (
            ()
            if self.clipped == "record"
            else ("the mean gradient of a minibatch is clipped, not each record's",)
        )
        assumptions = *CHOSEN, *by, *facts.rows, *read
        guarantee = guaranteed(
            self.accountant, event, budget, self.adjacency, "all_iterates", "poisson", assumptions
        )
        stated = self.calibrated is None
        settings = {
            "schedule": self.schedule,
            "calibration": "published" if stated else self.calibrated or "",
            "noise_multiplier": sigma,
            "noise_std": float(noise[0]),
            "clip": clip,
        }
        return Plan(guarantee, chain, settings, stated)

    def settled(self, facts: Facts, budget: Budget) -> tuple[float, float, float]:
        """Return the step size eta_1, the clip L and the noise multiplier sigma_1 for a budget.

        Raises
        ------
        ValueError
            Without a budget if step or clip is None or `calibrated` is "clip"; or if no noise multiplier fits
            the budget.
        """
        n, batch, heat = facts.n, self.sampling.size(facts.n), self.heat
        # one record moves a minibatch's sum by at most `moved` clips
        moved = 1.0 if self.clipped == "record" else 2.0 * batch
        most = None if self.step is None else Steps(self.step, self.unit).first(facts)
        if self.clip is not None and most is not None:
            least = multiplier_of(most / heat, records=n, batch=batch, lipschitz=moved * self.clip)
            if self.calibrated is None or (budget.epsilon == math.inf and self.calibrated == "step"):
                return most, self.clip, least
        require(budget.epsilon < math.inf, "without a budget give both step and clip")
        sigma = smallest_multiplier(
            self.accountant,
            budget,
            rate=self.sampling.rate(n),
            steps=self.sampling.steps(n),
            schedule=self.schedule,
            adjacency=self.adjacency,
            **({"low": least} if self.calibrated == "step" and most is not None else {}),
        )
        if self.calibrated == "clip":
            assert most is not None
            return most, batch / (moved * sigma * math.sqrt(most * n / heat)), sigma
        assert self.clip is not None
        if most is not None and sigma == least:
            return most, self.clip, sigma
        return heat * step_of(sigma, records=n, batch=batch, lipschitz=moved * self.clip), self.clip, sigma


@dataclass(frozen=True)
class Sgld(ChainMethod):
    """`DpSgldLi2019` without a budget and without clipping, with eta_1 = step/unit.

    The samples of the chain are released as they are.  The paper calls its baseline "standard SGLD" and gives
    neither its step size nor its minibatches.
    """

    budgeted: ClassVar[bool] = False
    schedule: StepSchedule = "fixed"
    step: float = 0.5
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    sampling: Sampling = POISSON
    unit: Unit = "smoothness"
    temperature: Temperature = "printed"

    def __post_init__(self) -> None:
        check_schedule(self.schedule)
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        positive(step=self.step)

    @property
    def accountant(self) -> Accountant:
        return Tight()

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, "sgld")
        n, steps = facts.n, self.sampling.steps(facts.n)
        eta = langevin_steps(Steps(self.step, self.unit).first(facts), steps, self.schedule)
        noise = self.sampling.size(n) * (HEAT[self.temperature] / (eta * n)).sqrt()
        keep = thinned(steps, self.burn_in, self.samples)
        chain = Chain(eta, noise, self.sampling, l2=self.precision / n, keep=keep)
        return Plan(
            without_privacy(self.accountant, budget, self.sampling), chain, {"schedule": self.schedule}
        )


@dataclass(frozen=True)
class DpSgldRyffel2022(ChainMethod):
    """DP-Langevin, Algorithm 1 of Ryffel, Bach and Pointcheval (2022), which releases only the last iterate.

    One step is::

        theta <- Proj_C(theta - eta_k (mean of clipped gradients + l2 theta) + sqrt(2 eta_k) sigma N(0, I))

    The mean is over a uniform subset of tau rows, drawn anew at each step, or over the next tau rows of a
    shuffled epoch.  On Poisson samples it is the sum divided by tau; with a clip and initial = "zero", each
    step is then one of DP-SGD with an L2 penalty.  `step` = 1/2 in units of the smoothness of the mean loss
    gives the steps of section 5.2.

    The last-iterate bound (Bok2024) needs every record's loss to be convex and smooth.  While no gradient is
    clipped, it holds with smoothness row_bound^2/2 + l2.  A clipped softmax gradient need not be the gradient
    of any convex function; then there is no such bound.

    Differs: the theorem bounds gradients of the whole loss.  Here only the part that depends on the record is
    clipped.  The L2 penalty needs no data and cancels in the difference of two neighbours.

    Attributes
    ----------
    l2 : float, > 0.  Weight of the L2 penalty on the mean loss.
    accountant : `Ryffel2022`, Theorem 3.1 with K counted in steps; or `Tight`, the smaller of the privacy
        loss distribution of all iterates and the last-iterate bound.
    step, unit, schedule : Step sizes, as in `samplers.chains.steps`.
    clip : float, > 0, or None for no clipping.  L is the smaller of `clip` and the problem's bound on
        gradients.
    noise_std : float, > 0, or None.  sigma; None: the smallest that `accountant` allows.
    radius : float, > 0, or None.  Radius of the ball C; None for the whole space.
    initial : "theorem": theta_0 ~ Proj_C N(0, 2 sigma^2/l2 I).  "code": the standard deviation is 2
        sigma^2/l2, as in the authors' code.  "zero": theta_0 = 0.  The theorem covers only the first.

    References
    ----------
    ryffel2022, Algorithm 1, Theorem 3.1 and section 5.2; bok2024.
    """

    budgeted: ClassVar[bool] = True
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

    FAINT: ClassVar[float] = 1e-2  # calibration searches noise multipliers from FAINT to LOUD
    LOUD: ClassVar[float] = 1e5

    def __post_init__(self) -> None:
        positive(l2=self.l2)
        for name in ("clip", "noise_std", "radius"):
            if (value := getattr(self, name)) is not None:
                positive(**{name: value})
        known = ("theorem", "code", "zero")
        require(self.initial in known, f"initial {self.initial!r} is unknown: {', '.join(known)}")
        check_scheme("dp_sgld_ryffel2022", self.sampling, "subset", "shuffled", "poisson")
        require(
            self.schedule in ("constant", "ryffel2022"),
            f"schedule must be constant or ryffel2022, not {self.schedule!r}",
        )

    @property
    def steps(self) -> Steps:
        """The step sizes as one object."""
        return Steps(self.step, self.unit, self.schedule)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        require(budget.epsilon < math.inf, "dp_sgld_ryffel2022 needs a budget: sgd is its limit without one")
        n, steps, stated = facts.n, self.sampling.steps(facts.n), self.noise_std is not None
        sigma = self.calibrated(facts, budget)
        paper, proven = self.event(facts, sigma), self.provable(facts, sigma)
        by_paper = stated or isinstance(self.accountant, Ryffel2022)
        claimed = self.accountant.epsilon(paper if by_paper else proven, budget.delta)
        eta = self.steps.sizes(facts, steps, self.l2)
        chain = Chain(
            step=eta,
            noise_std=self.sampling.size(n) * sigma * (2 / eta).sqrt(),
            sampling=self.sampling,
            clip=self.limit(facts) if self.clips(facts) else math.inf,
            l2=self.l2,
            radius=math.inf if self.radius is None else self.radius,
            start_std={"theorem": sigma * math.sqrt(2 / self.l2), "code": 2 * sigma**2 / self.l2}.get(
                self.initial, 0.0
            ),
            keep=(steps,),
        )
        convexity = (
            f"no last-iterate bound: {WITHOUT_LAST[self.sampling.scheme]}"
            if self.sampling.scheme in WITHOUT_LAST
            else "no last-iterate bound: a clipped softmax gradient need not be the gradient of a convex loss"
            if self.clips(facts)
            else f"last-iterate bound: every record's loss {facts.smoothness + self.l2:.4g}-smooth"
        )
        assumptions = "number of records public", *facts.rows, *self.steps.read(facts), convexity
        drawn: SamplingScheme = (
            "without_replacement" if self.sampling.scheme == "subset" else self.sampling.scheme
        )
        guarantee = Guarantee(claimed, budget.delta, proven, "replace_one", "final", drawn, assumptions)
        settings = {
            "schedule": shown(self.schedule),
            "calibration": "published" if stated else "formula" if by_paper else "tight",
            "noise_std": sigma,
            "noise_multiplier": float(paper.multipliers()[0]),
            "clip": paper.lipschitz,
            "smoothness": paper.smoothness,
        }
        return Plan(
            guarantee, chain, settings, stated, tuple(self.violated(facts, paper, budget.delta)), paper
        )

    def limit(self, facts: Facts) -> float:
        """Return L, which no gradient exceeds: the clip or the bound from the rows, whichever is smaller.

        Raises
        ------
        ValueError
            If there is neither a clip nor a bound.
        """
        limit = min(facts.lipschitz, math.inf if self.clip is None else self.clip)
        require(limit < math.inf, "gradients without a bound need a clip: set clip, or bound the rows")
        return limit

    def clips(self, facts: Facts) -> bool:
        """Return True if a gradient can be longer than the clip."""
        return facts.lipschitz > self.limit(facts) * (1 + 1e-9)

    def event(self, facts: Facts, noise: float) -> LangevinDpEvent:
        """Return the event of the last iterate, with the smoothness of the mean loss as in the paper.

        A network has no known smoothness.  Its event has the smoothness for which `step` is the step of
        section 5.2.

        Parameters
        ----------
        noise : float, > 0.  sigma.
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
        """Return the event that `Tight` may price: the last iterate if it has a bound, else all iterates.

        The event of the last iterate has the smoothness of every record's loss, not of the mean loss.

        Parameters
        ----------
        noise : float, > 0.  sigma.
        """
        event = self.event(facts, noise)
        if self.sampling.scheme == "shuffled":
            return ShuffledEpochsDpEvent.of(self.sampling.per_epoch(facts.n), event.multipliers())
        if self.sampling.scheme == "poisson":
            return composed_steps(facts.n, event.batch, event.multipliers(), poisson=True)
        if self.clips(facts):
            return event.all_iterates()
        return attr.evolve(event, smoothness=facts.smoothness + self.l2)

    def calibrated(self, facts: Facts, budget: Budget) -> float:
        """Return sigma: `noise_std`, or the smallest that the accountant allows for the budget."""
        if self.noise_std is not None:
            return self.noise_std
        unit = float(1 / self.event(facts, 1.0).multipliers()[0])  # sigma at noise multiplier 1
        make = self.event if isinstance(self.accountant, Ryffel2022) else self.provable
        low, high = self.FAINT * unit, self.LOUD * unit
        return calibrate(self.accountant, lambda sigma: make(facts, sigma), budget, low=low, high=high)

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


def langevin_steps(first: float, steps: int, schedule: StepSchedule) -> torch.Tensor:
    """Return eta_t, ``(steps,)``, starting at eta_1 = `first`."""
    t = torch.arange(1, steps + 1, dtype=torch.float64)
    return first * t ** (-1 / 3) if schedule == "decreasing" else torch.full_like(t, first)


def check_temperature(temperature: str) -> None:
    """Raise ValueError for an unknown temperature."""
    require(temperature in HEAT, f"temperature must be one of {tuple(HEAT)}, not {temperature!r}")


def check_schedule(schedule: str) -> None:
    """Raise ValueError for an unknown schedule of step sizes."""
    known = get_args(StepSchedule)
    require(schedule in known, f"schedule must be one of {known}, not {schedule!r}")
