# Everything runs in .venv, made from requirements.lock. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup repro exhibit report verify smoke test test-quick faults lint bench gpu

PYTHON ?=
VENV := .venv
RUN := $(VENV)/bin/python
unexport PYTHONWARNINGS  # libraries warn
export PYTHONPATH := src$(if $(PYTHONPATH),:$(PYTHONPATH))
on = $(filter-out 0 no false,$(1))

# FORCE=1 computes again what is committed, too; STRICT=1 calls data that cannot be had a failure, too; CLUSTER= names a
# scheduler of Dask, on whose workers units are computed
REPRO = $(if $(CLUSTER),DPL_CLUSTER="$(CLUSTER)") $(RUN) pipelines/repro.py $(if $(call on,$(FORCE)),--force) $(if $(call on,$(STRICT)),--strict)

QUICK = tests/data tests/cli tests/samplers/kernels tests/papers/exhibits/test_scripts.py tests/pipeline/test_cache.py tests/pipeline/test_sweep.py tests/test_imports.py \
	tests/problems/test_networks.py tests/test_random.py $(addprefix tests/faults/test_conf.py::test_,every_group_is_checked what_targets_take_has_annotations)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.12 picks the interpreter of the virtual environment (3.11, 3.12 or 3.13; else python3, or the newest of these)."

setup: $(VENV)/installed  ## virtual environment .venv from requirements.lock: minutes; 0.5 GB from a registry, 3 GB with torch for CUDA

$(VENV)/installed: requirements.lock pyproject.toml
	@python=$$(sh pipelines/interpreter.sh "$(PYTHON)") || exit 1; \
		echo "Setting up $(VENV) with $$python: some minutes. It downloads 0.5 GB and takes 2 GB of disk, with torch for CUDA 3 and 6 GB."; \
		"$$python" -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

repro: $(VENV)/installed  ## every exhibit: compose conf/, run what changed, say what came of it (FORCE=1, STRICT=1, SET=pipeline=svhn, CLUSTER=tcp://HOST:8786)
	@$(REPRO) $(SET)

exhibit: $(VENV)/installed  ## one exhibit and what it needs: make exhibit ID=wang2015_fig1c (FORCE=1, STRICT=1)
	@$(REPRO) --exhibit "$(ID)" $(SET)

report: $(VENV)/installed  ## the site results/report/ and what it needs: open results/report/index.html in a browser
	@$(REPRO) --target report $(SET)
	@echo "Open results/report/index.html in a browser; it needs no server and no network."

verify: $(VENV)/installed  ## compute some units of each committed result again and compare (NAME=compare-adult, UNITS=1); an hour or two
	@$(RUN) pipelines/verify.py $(NAME) $(if $(UNITS),--units $(UNITS))

smoke: $(VENV)/installed  ## every stage at scale=smoke in a temporary copy; no network, minutes
	@$(RUN) pipelines/smoke.py

test: $(VENV)/installed  ## the tests, on all cores, without the fault trials that take long
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -n logical --dist loadfile --max-worker-restart 0 -m "not (trial and slow)"

test-quick: $(VENV)/installed  ## two minutes of the tests, for another interpreter: PYTHON=python3.13 VENV=build/python3.13
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -n logical --dist loadfile --max-worker-restart 0 -m "not slow" $(QUICK)

faults: $(VENV)/installed  ## every fault trial, as a table: kills, damaged files, broken configs, hostile mirrors; minutes
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -n logical --dist loadfile -m trial

lint: $(VENV)/installed  ## ruff (lint, format), mypy and the import rule
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports

bench: $(VENV)/installed  ## speed against scipy, JAX, Opacus and others (installs requirements-bench.lock)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-bench.lock
	@$(RUN) benchmarks/bench.py

gpu: $(VENV)/installed  ## on a machine with a GPU: the tests marked gpu, committed rows and a table of times (writes benchmarks/gpu.md)
	@$(RUN) benchmarks/gpu.py
