"""Features of tiny images, and the stage that extracts them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from loading import pictures
from omegaconf import DictConfig
from scenarios import backbone as made_up

from dplangevin import random
from dplangevin.backbones import Backbone, network
from dplangevin.backbones.augmentation import shifted
from dplangevin.backbones.features import Extraction
from dplangevin.backbones.pretrain import initialise
from dplangevin.data import Dataset

CPU = torch.device("cpu")


@pytest.fixture
def backbone() -> Backbone:
    return made_up()


def extraction(resize: str = "none", batch: int = 4, public_images: int = 3) -> Extraction:
    return Extraction(resize, batch, public_images, padding=0, flip=False)


def test_extraction_is_the_plain_network_on_every_image(backbone: Backbone) -> None:
    data, public = pictures(), pictures(n=5)
    made = extraction().build(backbone, data, public, {"name": "tiny"}, CPU, random.generator(1, "draws"))
    with torch.no_grad():
        for name in ("train", "test"):
            x, found = getattr(data, f"x_{name}")[0], getattr(made, f"x_{name}")[0]
            expected = backbone.features(backbone.inputs(torch.from_numpy(x))).numpy()
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())
            assert np.array_equal(getattr(made, f"y_{name}"), getattr(data, f"y_{name}"))
        first = backbone.features(backbone.inputs(torch.from_numpy(public.x_train[0, :3]))).norm(dim=1)
    assert made.shape == (256,)
    assert made.meta["classes"] == 3
    assert made.meta["public"]["set"] == "small"
    assert made.meta["public"]["images"] == 3
    assert made.meta["public"]["norm_max"] == pytest.approx(float(first.max()), rel=1e-4)
    assert made.meta["public"]["norm_mean"] == pytest.approx(float(first.mean()), rel=1e-4)
    assert "augmentation" not in made.meta


def test_training_images_are_cropped_and_mirrored_once(entry: Callable[..., DictConfig]) -> None:
    backbone = network(entry("alexnet_cifar100", {"width": 4}))
    initialise(backbone, random.generator(1, "test"))
    backbone.eval()
    data, public = pictures(n=1100), pictures(n=5)
    shifting, seed = replace(extraction(batch=50), padding=4, flip=True), 5

    def build(made: Extraction) -> Dataset:
        return made.build(backbone, data, public, {}, CPU, random.generator(seed, "draws"))

    made, plain = build(shifting), build(extraction(batch=50))
    rng, x = random.generator(seed, "draws"), torch.from_numpy(data.x_train[0])
    cut = torch.cat([shifted(x[:1000], 4, True, rng), shifted(x[1000:], 4, True, rng)]).numpy()
    assert made.x_train[0].tobytes() == extraction(batch=50).features(backbone, cut, CPU).tobytes()
    assert made.x_test.tobytes() == plain.x_test.tobytes()
    assert made.meta["public"] == plain.meta["public"]
    assert made.meta["augmentation"] == {"padding": 4, "flip": True}
    assert build(replace(shifting, batch=30)).x_train == pytest.approx(made.x_train, rel=1e-3, abs=1e-3)
    with pytest.raises(ValueError, match="padding = -1 must"):
        replace(shifting, padding=-1)


def test_the_same_bytes_on_any_number_of_cores_and_public_norms_from_the_public_set_only(
    backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, data, rng = extraction(public_images=100), pictures(), random.generator(1, "draws")
    made = [many.build(backbone, data, pictures(n=5), {}, CPU, rng) for _ in range(2)]
    assert made[0].x_train.tobytes() == made[1].x_train.tobytes()
    monkeypatch.setattr("dplangevin.backbones.features.cpu_count", lambda: 3)
    assert made[0].x_train.tobytes() == many.features(backbone, data.x_train[0], CPU).tobytes()
    other = replace(data, x_train=255 - data.x_train, x_test=255 - data.x_test)
    changed = many.build(backbone, other, pictures(n=5), {}, CPU, rng)
    assert changed.meta["public"] == made[0].meta["public"]
    assert changed.meta["public"]["images"] == 5
    assert not np.array_equal(changed.x_train, made[0].x_train)


def test_grey_images_of_another_size(backbone: Backbone) -> None:
    grey = pictures(shape=(1, 112, 112)).arrays()
    found = extraction("antialias").features(backbone, grey.x_test, CPU)
    assert found.shape == (4, 256)
    coloured = np.repeat(grey.x_test, 3, axis=1)
    assert np.allclose(found, extraction("antialias").features(backbone, coloured, CPU), atol=1e-5)
    with pytest.raises(ValueError, match="batch = 0"):
        extraction(batch=0)
