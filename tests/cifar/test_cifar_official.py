"""The official files of CIFAR, where a mirror has them."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from small_cifar import config, load

from dplangevin.data import sha256
from dplangevin.download import DataUnavailable, fetch, mirrors

# MD5 of the members, as torchvision publishes them.
OFFICIAL = {
    "cifar10": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    "cifar100": {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
}
# Processed bytes of the real files.
PROCESSED = {
    "cifar10": "b142e2e0b2b8f773086914fc41d6b3b88266cf2b2da9ddc0042dcdabeb4631a1",
    "cifar100": "2cbd327f99bfa02873ba2c1170f77247c634702ba9fd94a7539ddda3df8ed447",
}


@pytest.mark.parametrize(
    ("key", "mean", "std"),
    [  # of the training pixels, as published with many models
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        ("cifar100", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    ],
)
def test_the_real_files(tmp_path: Path, key: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """If a folder of DATA_MIRROR has them: official checksums, classes, moments, processed bytes."""
    cfg = config(key, archive={"urls": []})
    sources = [entry for entry in mirrors(os.environ.get("DATA_MIRROR", "")) if "://" not in entry]
    try:
        fetch(key, cfg.files, tmp_path / key, sources)
    except DataUnavailable:
        pytest.skip(f"no folder in DATA_MIRROR has {key}")
    assert {path.name for path in (tmp_path / key).iterdir()} == set(OFFICIAL[key])
    for name, md5 in OFFICIAL[key].items():
        assert hashlib.md5((tmp_path / key / name).read_bytes()).hexdigest() == md5
    data = load(tmp_path / key)
    assert data.x_train.shape == (50000, 3, 32, 32)
    assert data.x_test.shape == (10000, 3, 32, 32)
    for y, n in ((data.y_train, 50000), (data.y_test, 10000)):
        assert np.bincount(y).tolist() == [n // data.classes] * data.classes
    assert (
        data.meta["labels"][:2]
        == {"cifar10": ["airplane", "automobile"], "cifar100": ["apple", "aquarium_fish"]}[key]
    )
    for c in range(3):
        assert data.x_train[:, c].mean() / 255 == pytest.approx(mean[c], abs=1e-4)
        assert data.x_train[:, c].std() / 255 == pytest.approx(std[c], abs=1e-4)
    data.save(tmp_path / f"{key}.npz")
    assert sha256(tmp_path / f"{key}.npz") == PROCESSED[key]
