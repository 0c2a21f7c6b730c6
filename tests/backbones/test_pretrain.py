"""Pretraining: crops and mirror images, learning a toy set, going on after a stop, the stage."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from quick import sample
from stopping import Stop, Stopping

from dplangevin import random
from dplangevin.backbones import Backbone, alexnet, load, resnet18
from dplangevin.backbones.augmentation import shifted
from dplangevin.backbones.pretrain import Pretraining, Session, accuracy, initialise, pretrain
from dplangevin.data import Dataset
from dplangevin.engine.convolution import layout
from dplangevin.files import Checkpoint, sha256

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
BFLOAT16: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # else torch's convolutions end the process
PLAN = Pretraining(
    epochs=6, batch=20, step_size=0.05, momentum=0.9, weight_decay=5e-4, label_smoothing=0.1, padding=2, flip=True,
    bfloat16=False, held_out=0,
)  # fmt: skip


def toy(n: int = 90, m: int = 60) -> Dataset:
    """Three classes: the channel that is brighter than the others."""
    rng = np.random.default_rng(4)
    parts: list[np.ndarray] = []
    for rows in (n, m):
        y = rng.integers(0, 3, rows)
        x = rng.integers(0, 156, (rows, 3, 32, 32), dtype=np.uint8)
        x[np.arange(rows), y] += 60
        parts += [x, y]
    return Dataset.from_arrays(parts[0], parts[1], parts[2], parts[3], {"name": "toy", "classes": 3})


def narrow() -> Backbone:
    return resnet18.build(3, 4, 32, [0.35] * 3, [0.2] * 3)


def test_every_crop_and_mirror_image_and_no_other() -> None:
    image = torch.arange(2 * 3 * 4, dtype=torch.uint8).view(1, 2, 3, 4) + 1
    framed = torch.nn.functional.pad(image, (1, 1, 1, 1))
    possible = {
        bytes((part.flip(3) if mirrored else part).numpy().tobytes())
        for top in range(3)
        for left in range(3)
        for mirrored in (False, True)
        for part in [framed[:, :, top : top + 3, left : left + 4]]
    }
    found = shifted(image.expand(500, 2, 3, 4), 1, True, random.generator(1, "crops"))
    assert found.dtype == torch.uint8
    assert {row.contiguous().numpy().tobytes() for row in found} == possible
    assert len(possible) == 18
    plain = shifted(image.expand(5, 2, 3, 4), 0, False, random.generator(1, "none"))
    assert torch.equal(plain, image.expand(5, 2, 3, 4))


@pytest.mark.parametrize("bfloat16", sample([False, True], lambda bfloat16: not bfloat16))
@pytest.mark.parametrize(("build", "epochs"), [(resnet18.build, 6), (alexnet.build, 40)])
def test_a_toy_set_is_learned(
    build: Callable[..., Backbone], epochs: int, bfloat16: bool, tmp_path: Path
) -> None:
    if bfloat16 and not BFLOAT16:
        pytest.skip("torch's bfloat16 convolutions end the process on processors without AVX-512")
    module, images = build(3, 4, 32, [0.35] * 3, [0.2] * 3), toy()
    plan = replace(PLAN, epochs=epochs, bfloat16=bfloat16)
    arrays, right, curve = plan.run(
        module, images, random.generator(1, "toy"), CPU, Checkpoint(tmp_path / "c.pt", "key")
    )
    assert right > 0.9
    assert right == accuracy(module, images.x_test[0], images.y_test[0], CPU)
    assert arrays.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():  # measured as they are kept
        assert (value.numpy() == arrays[name]).all()
    assert {array.dtype for array in arrays.values()} <= {np.dtype(np.float16), np.dtype(np.int64)}
    assert {name: len(values) for name, values in curve.items()} == dict.fromkeys(
        ("loss", "train", "test"), epochs
    )
    assert curve["loss"][-1] < 0.5 < curve["loss"][0]
    assert curve["train"][0] < 0.9 < curve["train"][-1]
    assert curve["test"][-1] == pytest.approx(right, abs=0.05)


@pytest.mark.slow
def test_a_resumed_run_ends_in_the_same_bytes(tmp_path: Path) -> None:
    images = toy()
    whole, right, curve = PLAN.run(
        narrow(), images, random.generator(1, "toy"), CPU, Checkpoint(tmp_path / "a.pt", "key")
    )
    path = tmp_path / "b.pt"
    for stop in (7, 4):  # in the middle of epochs of four steps, then at the end of one
        with pytest.raises(Stop):
            PLAN.run(narrow(), images, random.generator(1, "toy"), CPU, Stopping(path, stop))
    state = Checkpoint(path, "key").load()
    assert state is not None
    assert state["step"] == 11
    resumed, again, same = PLAN.run(
        narrow(), images, random.generator(99, "other"), CPU, Checkpoint(path, "key")
    )
    assert (again, same) == (right, curve)
    assert all(resumed[name].tobytes() == value.tobytes() for name, value in whole.items())
    other, *_ = PLAN.run(
        narrow(), images, random.generator(2, "toy"), CPU, Checkpoint(tmp_path / "d.pt", "key")
    )
    assert not np.array_equal(other["conv1.weight"], whole["conv1.weight"])


def test_one_step_is_the_formula() -> None:
    """Against the update written out: momentum, weight decay, the cosine and the smoothed loss."""
    plan = replace(PLAN, padding=0, flip=False, weight_decay=0.1)
    images, module = toy(), narrow()
    train, test = (images.x_train[0], images.y_train[0]), (images.x_test[0], images.y_test[0])
    session = Session(plan, module, train, test, random.generator(5, "formula"), CPU)
    session.start(None)
    twin = narrow()
    twin.load_state_dict(module.state_dict())
    twin.to(memory_format=layout(CPU)).train()  # type: ignore[call-overload]
    order = torch.randperm(90, generator=torch.Generator().set_state(session.rng.get_state()))
    velocity = [torch.zeros_like(p) for p in twin.parameters()]
    for t, rate in ((0, 0.05), (1, 0.05 * (1 + np.cos(np.pi / 4)) / 2)):
        session.advance(4)
        rows = order[20 * t : 20 * t + 20]
        logp = twin(twin.inputs(torch.from_numpy(images.x_train[0])[rows])).log_softmax(1)
        chosen = logp.gather(1, torch.from_numpy(images.y_train[0])[rows, None])[:, 0]
        loss = -(0.9 * chosen + 0.1 * logp.mean(1)).mean()
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(twin.parameters(), gradients, strict=True)):
                velocity[i] = 0.9 * velocity[i] + g + 0.1 * p
                p.sub_(rate * velocity[i])
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(p, q, atol=3e-4)


def test_initial_law() -> None:
    module = resnet18.build(100, 32, 32, [0.5] * 3, [0.2] * 3)
    initialise(module, random.generator(1, "law"))
    weight = module.state_dict()["layer3.1.conv2.weight"]
    assert float(weight.std()) == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.01)
    assert float(module.linear.weight.detach().abs().max()) == pytest.approx(1 / 16, rel=0.01)
    other = alexnet.build(100, 64, 32, [0.5] * 3, [0.2] * 3)
    initialise(other, random.generator(1, "law"))
    biased = other.convolutions[3]
    assert isinstance(biased, torch.nn.Conv2d)
    for values in (biased.weight, biased.bias):
        assert values is not None
        assert float(values.detach().abs().max()) == pytest.approx(1 / 40, rel=0.05)  # 1/sqrt(64 25)
    norm = module.get_submodule("bn1")
    assert isinstance(norm, torch.nn.BatchNorm2d)
    assert norm.running_var is not None
    assert bool((norm.weight == 1).all())
    assert bool((norm.running_var == 1).all())
    with pytest.raises(ValueError, match="GroupNorm"):
        initialise(torch.nn.Sequential(torch.nn.GroupNorm(2, 4)), random.generator(1, "law"))


def test_what_cannot_be_trained_is_named(tmp_path: Path) -> None:
    images, rng, checkpoint = toy(), random.generator(1, "toy"), Checkpoint(tmp_path / "c.pt", "key")
    with pytest.raises(ValueError, match="3 classes, but the backbone has 5"):
        PLAN.run(resnet18.build(5, 4, 32, [0.3] * 3, [0.2] * 3), images, rng, CPU, checkpoint)
    with pytest.raises(ValueError, match=r"batch = 100 is larger than the data set \(90 images\)"):
        replace(PLAN, batch=100).run(narrow(), images, rng, CPU, checkpoint)
    with pytest.raises(ValueError, match="the loss is nan; lower step_size"):
        replace(PLAN, step_size=1e20).run(narrow(), images, rng, CPU, checkpoint)
    with pytest.raises(ValueError, match="epochs must be positive"):
        replace(PLAN, epochs=0)
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\), not 1"):
        replace(PLAN, label_smoothing=1)
    with pytest.raises(ValueError, match="held_out must"):
        replace(PLAN, held_out=-1)


def test_an_entry_to_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, entry = (
        OmegaConf.load(ROOT / f"conf/{kind}/resnet18_cifar100.yaml") for kind in ("backbone", "pretrain")
    )
    narrow = OmegaConf.merge(backbone, {"classes": 3, "width": 4})
    entry = OmegaConf.merge(entry, {"training": {"batch": 30, "epochs": 2}})
    both = {"backbone": {"resnet18_cifar100": narrow}, "pretrain": {"resnet18_cifar100": entry}}
    cfg: Any = OmegaConf.create({"seed": 3, **both})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPL_DEVICE", "cpu")
    toy().save("cifar100.npz")
    digests = set()
    for _ in range(2):
        pretrain(cfg, "resnet18_cifar100", Path("cifar100.npz"), Path("weights.npz"), "made of")
        digests.add(sha256("weights.npz"))
    assert len(digests) == 1
    with np.load("weights.npz") as archive:
        meta = json.loads(archive["meta"].tobytes())
    assert (meta["inputs"], meta["seed"], meta["device"]) == ("made of", 3, "cpu")
    told = meta["training"]
    assert (told["epochs"], told["images"], told["tested"]) == (2, 90, "test images")
    assert len(told["curve"]["test"]) == 2
    assert not list(Path("data/units").rglob("*.pt"))
    made, _ = load(cfg.backbone.resnet18_cifar100, Path("weights.npz"))
    data = toy().arrays()
    assert accuracy(made, data.x_test, data.y_test, CPU) == told["accuracy"]
