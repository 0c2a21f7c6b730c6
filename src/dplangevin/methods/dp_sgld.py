"""Differentially private stochastic gradient Langevin dynamics, as three papers have it, and SGLD without privacy.

They differ in what a step is, where its noise comes from and how it is sampled:

    `DpSgldWang2015`     uniform subsets, noise by Theorem 4, units of the summed loss
    `DpSgldLi2019`       Poisson samples of clipped gradients, noise that the step size sets
    `DpSgldRyffel2022`   uniform subsets, the last iterate alone is released, noise sqrt(2 eta) sigma
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import attr
import torch
from dp_accounting import DpEvent

from dplangevin.chains.chain import Chain, thinned
from dplangevin.chains.sampling import POISSON, SUBSETS, Sampling
from dplangevin.chains.steps import Steps, Unit, shown
from dplangevin.checks import positive, require
from dplangevin.methods import ChainMethod, Plan, guaranteed, no_budget
from dplangevin.methods.dp_sgd import CHOSEN, MOMENTS, check_chain, check_scheme, on_subsets, without_privacy
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import LangevinDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.events import Sampling as Drawn
from dplangevin.privacy.stepsize import Schedule, multiplier_of, smallest_multiplier, step_of, steps_event
from dplangevin.privacy.subsampled_gaussian import composed_steps
from dplangevin.privacy.wang2015_noise import gradient_variance, record_bound, subset_event
from dplangevin.problems import Facts

Temperature = Literal["printed", "proper"]
HEAT = {"printed": 1.0, "proper": 2.0}  # noise variance in units of the step size (of the summed loss)
# minibatches whose last iterate has no bound of its own
WITHOUT_LAST = {"shuffled": "epochs are shuffled", "poisson": "minibatches are Poisson samples"}


@dataclass(frozen=True)
class DpSgldWang2015(ChainMethod):
    r"""Algorithm 2 of Wang, Fienberg and Smola (2015), ``z ~ N(0, max(C eta_t^2, eta_t) I)``::

        theta <- theta - eta_t (grad r + n/tau sum_S grad l) + z

    C is Theorem 4's gradient noise (`wang2015_noise.gradient_variance`); below the step 1/C Langevin noise alone pays.
    Schedules of section 4.1, with ``eta_0 = min(1/C, most)`` and ``most = step/n``, step and unit as in `chains.steps`:
    "phase": ``eta_t = alpha (n T/tau)/(C t)``, so that the last (1 - alpha) of the steps are plain SGLD;
    "constant": eta_0;
    "harmonic": ``max(1/(t + 1), eta_0)`` as printed, which is far from stable for losses summed over n rows.
    Differs: the phase schedule, which has no finite value at eps = inf, is cut at `most`.
    clip: bound on a record's gradient where the problem has none; L is the smaller of both.
    temperature "printed": as above, and the noise N(0, eta) makes exp(-2U) the target, not the posterior; "proper": the
    variance is ``max(C eta_t^2, 2 eta_t)``, which targets exp(-U) and costs no more.
    theta_1 = 0 unless `start` is given; precision: of the Gaussian prior, >= 0; all iterates are released, of which
    `samples` after the `burn_in` share are kept.
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
        """eta_t, ``(steps,)``, for the noise constant C."""
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
    r"""Algorithm 1 of Li, Chen, Liu and Carin (2019)::

        theta <- theta - eta_t ((1/tau) sum_S clipped(grad l) + precision/n theta) + z,    z ~ N(0, eta_t/n I)

    S is a Poisson sample at q = tau/n and clipped gradients have norm at most L (`clip`), so the noise multiplier is
    ``sigma_t = tau/(L sqrt(eta_t n))``.  calibrated, to the smallest sigma_1 that `accountant` allows: "step", eta_1 is
    the largest that the budget allows and no larger than `step` (None: no limit; where it is the limit the chain is
    standard SGLD and costs less than the budget); "clip", L follows from `step`; None: both are stated, and the budget
    is what is claimed for them.
    step: ``step/unit`` as in `chains.steps`.  schedule: "fixed", or "decreasing", ``eta_t = eta_1 t^(-1/3)``.
    temperature "printed": as above, which targets exp(-2U); "proper": z ~ N(0, 2 eta_t/n), which targets exp(-U), so
    that ``sigma_t = tau/(L sqrt(eta_t n/2))``.  (Where a gradient is clipped neither is the target.)
    Differs: the paper prints ``- eta grad log``; read as minus the gradient of the loss and of -log prior.
    Differs: without a budget (eps = inf) gradients are clipped all the same; `Sgld` does not.
    precision: of the Gaussian prior, >= 0; all iterates are released, of which `samples` after the `burn_in` share are
    kept.  adjacency: what the accountant is asked for.
    """

    budgeted: ClassVar[bool] = True
    name: ClassVar[str] = "dp_sgld_li2019"
    schedule: Schedule = "fixed"
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
        chain = Chain(eta, noise, self.sampling, clip, self.precision / n, keep=keep)
        read = () if self.step is None else Steps(self.step, self.unit).read(facts)
        assumptions = *CHOSEN, *facts.rows, *read
        guarantee = guaranteed(
            self.accountant, event, budget, self.adjacency, "all_iterates", "poisson", assumptions
        )
        stated = self.calibrated is None
        settings = {
            "schedule": self.schedule,
            "calibration": "published" if stated else self.calibrated or "",
            "noise_multiplier": sigma,
            "noise_std": float(noise[0]),
        }
        return Plan(guarantee, chain, settings, stated)

    def settled(self, facts: Facts, budget: Budget) -> tuple[float, float, float]:
        """eta_1, L and sigma_1."""
        n, batch, heat = facts.n, self.sampling.size(facts.n), self.heat
        most = None if self.step is None else Steps(self.step, self.unit).first(facts)
        if self.clip is not None and most is not None:
            least = multiplier_of(most / heat, records=n, batch=batch, lipschitz=self.clip)
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
            return most, batch / (sigma * math.sqrt(most * n / heat)), sigma
        assert self.clip is not None
        if most is not None and sigma == least:
            return most, self.clip, sigma
        return heat * step_of(sigma, records=n, batch=batch, lipschitz=self.clip), self.clip, sigma


@dataclass(frozen=True)
class Sgld(ChainMethod):
    """`DpSgldLi2019` without a budget, with eta_1 = step/unit and no clipping; it releases samples of its chain as they
    are.  The paper calls its baseline "standard SGLD" and states neither step size nor minibatches."""

    budgeted: ClassVar[bool] = False
    schedule: Schedule = "fixed"
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
    r"""Algorithm 1 of Ryffel, Bach and Pointcheval (2022), of which the last iterate alone is released::

        theta <- Proj_C(theta - eta_k (mean of clipped gradients + l2 theta) + sqrt(2 eta_k) sigma N(0, I))

    The mean is over a uniform subset of tau rows, drawn anew each step, or the next tau of a shuffled epoch; on Poisson
    samples it is the sum over tau; with a clip and initial "zero" this is then DP-SGD with an l2, step for step.  The
    steps are those of section 5.2 where `step` is 1/2 in units of the smoothness of the mean loss.
    clip: None for none; L is the smaller of it and of the problem's own bound, which no gradient exceeds.
    radius: of the ball C, None for the whole space.
    initial: "theorem", theta_0 ~ Proj_C N(0, 2 sigma^2/l2 I); "code", as in the authors' code, where 2 sigma^2/l2 is
    the standard deviation; or "zero".  The theorem covers the first alone.
    noise_std: sigma; None: the smallest that `accountant` allows: Theorem 3.1 with K in steps (`Ryffel2022`), or the
    smaller of PLD of all iterates and the last-iterate bound (`Tight`).
    Differs: the theorem bounds gradients of the whole loss.  Here only the part that depends on the record is clipped;
    the ridge needs no data and cancels in the difference of two neighbours.

    The last-iterate bound (Bok2024) needs the loss of every record convex and smooth: with smoothness row_bound^2/2 +
    l2 it holds while no gradient is clipped.  A clipped softmax gradient need not be the gradient of any convex
    function; then there is no such bound.
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

    FAINT: ClassVar[float] = 1e-2  # noise multipliers that calibrations search
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
        drawn: Drawn = "without_replacement" if self.sampling.scheme == "subset" else self.sampling.scheme
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
        """No gradient is longer: the clip, or what the rows allow if that is less."""
        limit = min(facts.lipschitz, math.inf if self.clip is None else self.clip)
        require(limit < math.inf, "gradients without a bound need a clip: set clip, or bound the rows")
        return limit

    def clips(self, facts: Facts) -> bool:
        """Whether a gradient can be longer than the clip."""
        return facts.lipschitz > self.limit(facts) * (1 + 1e-9)

    def event(self, facts: Facts, noise: float) -> LangevinDpEvent:
        """The last iterate, with the smoothness of the mean loss as the paper has it; noise: sigma.

        Of a network, which has none, that of which `step` would be the step of section 5.2.
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
        """What `Tight` may price: the last iterate with every record's smoothness, or all iterates."""
        event = self.event(facts, noise)
        if self.sampling.scheme == "shuffled":
            return ShuffledEpochsDpEvent.of(self.sampling.per_epoch(facts.n), event.multipliers())
        if self.sampling.scheme == "poisson":
            return composed_steps(facts.n, event.batch, event.multipliers(), poisson=True)
        if self.clips(facts):
            return event.all_iterates()
        return attr.evolve(event, smoothness=facts.smoothness + self.l2)

    def calibrated(self, facts: Facts, budget: Budget) -> float:
        """sigma."""
        if self.noise_std is not None:
            return self.noise_std
        unit = float(1 / self.event(facts, 1.0).multipliers()[0])  # sigma at noise multiplier 1
        make = self.event if isinstance(self.accountant, Ryffel2022) else self.provable
        low, high = self.FAINT * unit, self.LOUD * unit
        return calibrate(self.accountant, lambda sigma: make(facts, sigma), budget, low=low, high=high)

    def violated(self, facts: Facts, event: LangevinDpEvent, delta: float) -> list[str]:
        """What Theorem 3.1 needs and this run does not have."""
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


def langevin_steps(first: float, steps: int, schedule: Schedule) -> torch.Tensor:
    """eta_t, ``(steps,)``, from eta_1."""
    t = torch.arange(1, steps + 1, dtype=torch.float64)
    return first * t ** (-1 / 3) if schedule == "decreasing" else torch.full_like(t, first)


def check_temperature(temperature: str) -> None:
    require(temperature in HEAT, f"temperature must be one of {tuple(HEAT)}, not {temperature!r}")


def check_schedule(schedule: str) -> None:
    known = get_args(Schedule)
    require(schedule in known, f"schedule must be one of {known}, not {schedule!r}")
