# Everything runs in .venv, made from requirements.lock. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup repro exhibit report verify smoke test faults lint bench

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
unexport PYTHONWARNINGS  # libraries warn
export PYTHONPATH := src$(if $(PYTHONPATH),:$(PYTHONPATH))
on = $(filter-out 0 no false,$(1))

# FORCE=1 computes again what is committed, too; STRICT=1 calls data that cannot be had a failure, too; CLUSTER= names a
# scheduler of Dask, on whose workers units are computed
REPRO = $(if $(CLUSTER),DPL_CLUSTER="$(CLUSTER)") $(RUN) pipelines/repro.py $(if $(call on,$(FORCE)),--force) $(if $(call on,$(STRICT)),--strict)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.12 picks the interpreter of the virtual environment (3.11 or 3.12)."

setup: $(VENV)/installed  ## virtual environment .venv from requirements.lock: minutes, and 1.6 GB

$(VENV)/installed: requirements.lock pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON) on this machine: name a Python 3.11 or 3.12 with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' || \
		{ echo "$(PYTHON) is too old: Python 3.11 or later is needed; name one with PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON): this takes some minutes and 1.6 GB."
	$(PYTHON) -m venv $(VENV)
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

faults: $(VENV)/installed  ## every fault trial, as a table: kills, damaged files, broken configs, hostile mirrors; minutes
	@OMP_NUM_THREADS=1 $(RUN) tests/faults/trials.py

lint: $(VENV)/installed  ## ruff (lint, format) and mypy
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

bench: $(VENV)/installed  ## speed against scipy, JAX, Opacus and others (installs requirements-bench.lock)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-bench.lock
	@$(RUN) benchmarks/bench.py
