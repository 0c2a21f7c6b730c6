"""The machine and the libraries that a table was made with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from dplangevin.pipeline.environment import processor

PACKAGES = (
    *("torch", "numpy", "scipy", "scikit-learn", "arviz", "dvc", "opacus", "jax", "jax_privacy", "optax"),
    *("numpyro", "posteriors", "dp-accounting", "riskcal", "prv-accountant", "pld-accounting"),
)


def describe(threads: int, scale: str) -> str:
    """Processor, cores, memory, threads and versions, as Markdown lines without a date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return (
        f"CPU: {processor()}, {cores()} cores for this process, {memory:.0f} GB of memory.\n"
        f"Threads: {threads} for torch and BLAS, unless a row says otherwise. Scale: {scale}.\n"
        f"Versions: Python {platform.python_version()}, {packages}."
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(absent)"
