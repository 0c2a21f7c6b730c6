# Everything runs in .venv, made from requirements.lock. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup repro exhibit smoke test lint bench

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
export PYTHONPATH := src
on = $(filter-out 0 no false,$(1))

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.12 picks the interpreter of the virtual environment (3.11 or 3.12)."

setup: $(VENV)/installed  ## virtual environment .venv from requirements.lock

$(VENV)/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; name one with PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

repro: $(VENV)/installed  ## every exhibit: compose conf/, run what changed, say what came of it (FORCE=1, STRICT=1)
	@$(RUN) pipelines/repro.py $(if $(call on,$(FORCE)),--force) $(if $(call on,$(STRICT)),--strict)

exhibit: $(VENV)/installed  ## one exhibit and what it needs: make exhibit ID=wang2015_fig1c (FORCE=1, STRICT=1)
	@$(RUN) pipelines/repro.py --exhibit "$(ID)" $(if $(call on,$(FORCE)),--force) $(if $(call on,$(STRICT)),--strict)

smoke: $(VENV)/installed  ## every stage at scale=smoke in a temporary copy; no network, minutes
	@$(RUN) pipelines/smoke.py

test: $(VENV)/installed  ## the tests
	@$(RUN) -m pytest

lint: $(VENV)/installed  ## ruff (lint, format) and mypy
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

bench: $(VENV)/installed  ## speed against scipy and Opacus (installs requirements-bench.lock)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-bench.lock
	@$(RUN) benchmarks/bench.py
