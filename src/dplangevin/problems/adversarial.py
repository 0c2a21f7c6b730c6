r"""Semi-supervised learning by a generative adversarial network (li2019, section 4.3), as a problem.

The discriminator has K + 1 classes; the last class means "generated" (Salimans, Goodfellow, Zaremba, Cheung, Radford
and Chen 2016; Saatchi and Wilson 2017). Let p be its softmax, R the first K classes and g the generator. The
discriminator minimises the mean over records of

    -w log p(y | x, R)            for an image x with label y
    -log p(R | x)                 for an image x without a label

plus the mean of ``-log p(K + 1 | g(z))`` over generated images. The weight w >= 0, for few labels, multiplies the loss
before the clip. After each step of the discriminator, the generator takes one step of Adam on the mean of ``-log p(R |
g(z))``.

**What is private**: records enter only the discriminator's sum of clipped gradients. The rest is post-processing. The
gradient of each generated image is clipped, too, because a clip on only one side of the game would tip the game.

Differs: the generator does not match features (Salimans et al.), whose means would be part of the mechanism.
Differs: the generator is one point estimate; Saatchi and Wilson sample generators by SGHMC, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor
from torch.func import functional_call

from dplangevin import random
from dplangevin.checks import not_negative, positive, require
from dplangevin.data import Dataset
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems import DefaultSteps, Facts, Sums
from dplangevin.problems.architectures import Generator, Network, adversaries, named
from dplangevin.problems.network import as_inputs, predictions, sums_of_chains

if TYPE_CHECKING:
    from dplangevin.problems.chain import Chain, Kernel, State
    from dplangevin.random import Batch

Labels = Literal["private", "public", "alone"]
# Adam's decay rates and its guard against a division by 0; Radford, Metz and Chintala 2016
BETAS, TINY = (0.5, 0.999), 1e-8


@dataclass(frozen=True)
class Adversary:
    """The generator's template, the step size of its Adam, and how many images a step generates."""

    generator: Generator
    step: float
    batch: int

    def __post_init__(self) -> None:
        positive(step=self.step, batch=self.batch)


@dataclass(frozen=True)
class GanProblem(DefaultSteps):
    """The d parameters of a discriminator, learned from images of which only a few have labels.

    After these d, theta has the parameters of the generator. Noise and `clipped_sum` concern only the first d.

    - `network`: The discriminator, with K + 1 logits.
    - `adversary`: None leaves supervised learning.
    - `x`: (N, C, H, W) of uint8. Training images.
    - `rows`: (S, n). Indices of the training images that are the records, for each seed.
    - `y`: (S, n). Labels 0, ..., K - 1 of the records; K + 1 for a record without a label.
    - `public`, `y_public`: (S, L) or None. Indices and labels of public images. Every step adds the mean of their
      clipped gradients, without noise.
    - `weight`: The weight w >= 0 of the loss of a labelled record.
    - `every_label`: (N,) or None. Labels of all training images, for the digit classifier only.
    """

    network: Network
    adversary: Adversary | None
    x: Tensor
    rows: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    public: Tensor | None = None
    y_public: Tensor | None = None
    weight: float = 1.0
    every_label: Tensor | None = None

    def __post_init__(self) -> None:
        not_negative(weight=self.weight)

    @classmethod
    def of_images(
        cls,
        images: Dataset,
        seeds: int,
        *,
        labels: Labels,
        seed: int,
        labelled: int = 10,
        channels: Sequence[int] = (8, 16),
        latent: int = 32,
        step: float = 1e-3,
        batch: int = 32,
        weight: float = 1.0,
    ) -> GanProblem:
        """Return the problem for an image set. Each seed draws `labelled` images of each class, which keep their label.

        `labels`: "private": these images are records like all others. "public": every step sees them, but they are no
        records. "alone": they are the only records, and there is no generator.
        """
        known = get_args(Labels)
        require(labels in known, f"labels must be one of {', '.join(known)}, not {labels!r}")
        positive(labelled=labelled)
        arrays = images.arrays()
        x, y = torch.as_tensor(arrays.x_train), torch.as_tensor(arrays.y_train)
        classes = images.classes
        network, generator = adversaries(images.shape, classes + 1, channels, latent)
        chosen = torch.stack([_labelled(y, classes, labelled, seed, s) for s in range(seeds)])
        own: dict[str, Any] = {
            "weight": weight,
            "every_label": y,
            "x_test": torch.as_tensor(arrays.x_test),
            "y_test": torch.as_tensor(arrays.y_test)[None],
        }
        if labels == "alone":
            return cls(network, None, x, chosen, y[chosen], **own)
        adversary = Adversary(generator, step, batch)
        of = torch.full((seeds, len(x)), classes + 1).scatter_(1, chosen, y[chosen])
        if labels == "private":
            return cls(network, adversary, x, torch.arange(len(x)).expand(seeds, -1), of, **own)
        rest = torch.stack([(labelled > classes).nonzero()[:, 0] for labelled in of])
        unknown = torch.full_like(rest, classes + 1)
        return cls(network, adversary, x, rest, unknown, **own, public=chosen, y_public=y[chosen])

    def to(self, device: torch.device) -> GanProblem:
        names = ("x", "rows", "y", "public", "y_public", "every_label")
        own = {name: getattr(self, name) for name in names}
        adversary = self.adversary
        if adversary is not None:
            adversary = replace(adversary, generator=adversary.generator.to(device))
        moved: Any = {name: each if each is None else each.to(device) for name, each in own.items()}
        return replace(self, network=self.network.to(device), adversary=adversary, **moved)

    @property
    def classes(self) -> int:
        """The number K of classes, without the class "generated"."""
        return self.network.classes - 1

    @property
    def facts(self) -> Facts:
        return Facts(self.rows.shape[1], self.network.d, self.classes)

    @property
    def device(self) -> torch.device:
        return self.x.device

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        theta = self.network.init(rng, seeds)
        if self.adversary is None:
            return theta
        return torch.cat([theta, self.adversary.generator.init(rng, seeds)], 1)

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        x, y = as_inputs(self.x[self.rows.gather(1, rows)]), self.y.gather(1, rows)
        at = theta[..., : self.network.d]
        return sums_of_chains(self.network, at, x, y, mask, clip, Loss(self.classes, self.weight))

    def public_mean(self, theta: Tensor, x: Tensor, y: Tensor, clips: Sequence[float]) -> Tensor:
        """Return the mean clipped gradient of images that are not records, ``(S, E, d)``.

        Shapes: theta (S, E, d), x (S or S E, B, C, H, W) in [-1, 1], targets y of `Loss` (S, B), clips (E,).
        """
        mask = torch.ones_like(y, dtype=torch.bool)
        x = x.unflatten(0, (len(theta), -1)).expand(-1, len(clips), *[-1] * 4)
        loss = Loss(self.classes)
        each = [
            clipped_sum(self.network, theta[:, e], x[:, e], y, mask, clip, loss_of=loss).gradient
            for e, clip in enumerate(clips)
        ]
        return torch.stack(each, 1) / y.shape[1]

    def predict(self, theta: Tensor) -> Tensor:
        """Return ``p(y | x, R)`` for the test rows, ``(S, E, m, K)``."""
        return predictions(self.network, theta[..., : self.network.d], self.x_test, self.classes)

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        return kernel if self.adversary is None else Against(self, self.adversary, kernel, chains)

    @torch.no_grad()
    def generated(self, theta: Tensor, z: Tensor) -> Tensor:
        """Return images g(z) in [-1, 1], ``(S, E, B, C, H, W)``, for z ``(B, latent)``."""
        if self.adversary is None:
            raise ValueError("supervised learning has no generator")
        flat = theta[..., self.network.d :].flatten(0, 1)
        images = torch.stack([self.adversary.generator.images(each, z) for each in flat])
        return images.unflatten(0, theta.shape[:2])


@dataclass(frozen=True)
class Loss:
    """The losses of this module for logits z ``(n, K + 1)``, and their gradients; see `engine.passes.Loss`.

    The target of an image selects its loss::

        0, ..., K - 1, a label:             weight (log sum_(k <= K) e^(z_k) - z_y)
        K, a generated image:               log sum_k e^(z_k) - z_(K+1)
        K + 1, an image without a label:    log sum_k e^(z_k) - log sum_(k <= K) e^(z_k)
    """

    classes: int
    weight: float = 1.0

    def __call__(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        real = z.clone()
        real[:, -1] = -math.inf
        every, real_sum = z.logsumexp(1), real.logsumexp(1)
        within = (real - real_sum[:, None]).exp()  # p(. | R), 0 for the last class
        label, made = (y < self.classes)[:, None], (y == self.classes)[:, None]
        target = (torch.arange(z.shape[1], device=z.device) == y[:, None]).to(z.dtype)
        known = torch.where(label | made, target, within)
        loss = torch.where(label[:, 0], real_sum, every)
        loss = loss - torch.where((label | made)[:, 0], (z * target).sum(1), real_sum)
        gradient = torch.where(label, within, z.softmax(1)) - known
        scale = torch.where(label, self.weight, 1.0).to(z.dtype)
        return loss * scale[:, 0], gradient * scale


class Against:
    """A kernel that alternates steps of the discriminator's kernel with steps of the generator.

    The discriminator's kernel sees theta's first d coordinates, and the noisy sum, to which tau times the mean clipped
    gradients of the generated and of the public labelled images are added. The generator's step takes the same images.

    The state is theta, the seed of the latent variables, Adam's two means ``(S, E, parameters of the generator)``, and
    the rest of the discriminator kernel's state. Chains of one seed share z, which is drawn anew at each step.
    """

    def __init__(
        self, problem: GanProblem, adversary: Adversary, kernel: Kernel, chains: Sequence[Chain]
    ) -> None:
        require(
            all(math.isinf(chain.radius) for chain in chains),
            "a GAN is learned on no ball: radius must be inf",
        )
        self.problem, self.adversary, self.kernel = problem, adversary, kernel
        self.clips = [chain.clip for chain in chains]
        self.size = chains[0].sampling.size(problem.facts.n)

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        d = self.problem.network.d
        _, *rest = self.kernel.init(theta[..., :d], rng)
        seed = torch.randint(2**31, (), generator=rng)
        still = torch.zeros_like(theta[..., d:])
        return theta, seed, still, still.clone(), *rest

    def step(self, state: State, noisy: Tensor, t: int, batch: Batch) -> State:
        theta, seed, mean, square, *rest = state
        d, generator = self.problem.network.d, self.adversary.generator
        discriminator, parameters = theta[..., :d], theta[..., d:].clone().requires_grad_()
        rng = random.generator(int(seed), f"latent variables of step {t}")
        z = random.normals(rng, len(theta), self.adversary.batch, generator.latent, device=theta.device)
        with torch.enable_grad():
            images = [[generator.images(own, z[s]) for own in chains] for s, chains in enumerate(parameters)]
        noisy = noisy + self.size * self.public(discriminator, [[x.detach() for x in own] for own in images])
        discriminator, *rest = self.kernel.step((discriminator, *rest), noisy, t, batch)
        with torch.enable_grad():
            losses = [
                self.fooled(discriminator[s, e], x) for s, own in enumerate(images) for e, x in enumerate(own)
            ]
            (gradient,) = torch.autograd.grad(torch.stack(losses).sum(), parameters)
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient.square()
        scale = (square / (1 - BETAS[1] ** (t + 1))).sqrt_().add_(TINY)
        move = self.adversary.step / (1 - BETAS[0] ** (t + 1)) * mean / scale
        return torch.cat([discriminator, parameters.detach() - move], -1), seed, mean, square, *rest

    def public(self, theta: Tensor, images: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return the gradient of the loss of all images that are not records, ``(S, E, d)``."""
        problem = self.problem
        x = torch.stack([image for own in images for image in own])
        made = torch.full((len(theta), x.shape[1]), problem.classes, device=theta.device)
        found = problem.public_mean(theta, x, made, self.clips)
        if problem.public is not None and problem.y_public is not None:
            labelled = as_inputs(problem.x[problem.public])
            found += problem.public_mean(theta, labelled, problem.y_public, self.clips)
        return found

    def fooled(self, theta: Tensor, images: Tensor) -> Tensor:
        """Return the mean of ``-log p(R | x)`` over the images; autograd goes through it."""
        module = self.problem.network.module
        z = functional_call(module, named(module, theta), (images,))
        return (z.logsumexp(1) - z[:, :-1].logsumexp(1)).mean()


def _labelled(y: Tensor, classes: int, each: int, seed: int, s: int) -> Tensor:
    order = torch.randperm(len(y), generator=random.generator(seed, f"labelled images of {s}"))
    found = [order[y[order] == k][:each] for k in range(classes)]
    few = min(map(len, found))
    require(few == each, f"labelled = {each} of each class: one class has {few} images")
    return torch.cat(found)
