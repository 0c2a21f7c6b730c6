# Everything runs in .venv, made from requirements.lock. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup repro exhibit site verify smoke test test-all faults prices lint bench audits gpu

PYTHON ?=
INTERPRETER := $(or $(PYTHON),python3)
TIMEOUT ?= 10
VENV := .venv
RUN := $(VENV)/bin/python
# An index that does not answer costs half a minute, not the minute and a half of pip's defaults
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --timeout 10 --retries 2
unexport PYTHONWARNINGS  # libraries warn
unexport PYTHONDONTWRITEBYTECODE  # each process would compile the package again
export PYTHONPATH := src$(if $(PYTHONPATH),:$(PYTHONPATH))
on = $(filter-out 0 no false,$(1))

# FORCE=1 runs every stage again; CLUSTER= names a Dask scheduler whose workers compute the tasks
REPRO = $(if $(CLUSTER),DPL_CLUSTER="$(CLUSTER)") $(RUN) pipelines/repro.py $(if $(call on,$(FORCE)),--force)

# Two workers share the tests until none is left; a test waits for events, and its limit in seconds ends what never happens.
TEST = OMP_NUM_THREADS=1 $(RUN) -m pytest -n logical --dist worksteal --max-worker-restart 0

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { \
		n = split($$2, parts, / [|] /); printf "make %-11s %s\n", $$1, parts[1]; \
		for (i = 2; i <= n; i++) printf "%16s %s\n", "", parts[i] }' $(MAKEFILE_LIST)
	@echo
	@echo "PYTHON=python3.12 names the interpreter of .venv: 3.11, 3.12 or 3.13."
	@echo "Without it, make takes python3."

setup: $(VENV)/installed  ## make .venv from requirements.lock, in minutes | downloads 0.5 GB, or 3 GB with torch for CUDA

$(VENV)/installed: requirements.lock pyproject.toml
	@"$(INTERPRETER)" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || \
		{ echo "$(INTERPRETER) is no Python of 3.11 to 3.13 that can make a virtual environment: name one with PYTHON=" >&2; exit 1; }
	@echo "Setting up $(VENV) with $(INTERPRETER): some minutes. It downloads 0.5 GB and takes 2 GB of disk, with torch for CUDA 3 and 6 GB."
	@"$(INTERPRETER)" -m venv $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

repro: $(VENV)/installed  ## make every exhibit: run what changed, print a summary | FORCE=1: run everything | SET=pipeline=svhn: other settings | CLUSTER=tcp://HOST:8786: on Dask
	@$(REPRO) $(SET)

exhibit: $(VENV)/installed  ## make one exhibit and what it needs: ID=wang2015_fig1b | FORCE=1: from raw data, compared with what is committed
	@$(REPRO) --exhibit "$(ID)" $(SET)

site: $(VENV)/site-installed  ## make build/site/: docs, API and report in one, with search | installs requirements-site.lock
	@rm -rf build/site
	@$(RUN) -m sphinx -q -E -W --keep-going -c docs -d build/site-doctrees . build/site
	@echo "Open build/site/index.html in a browser; it needs no server and no network."

$(VENV)/site-installed: requirements-site.lock $(VENV)/installed
	$(PIP) --no-deps -r requirements-site.lock
	@touch $@

verify: $(VENV)/installed  ## compute prices and short tasks again, compare: minutes | UNITS=1: one task of each method, an hour or two | NAME=compare-adult: of one result
	@$(RUN) pipelines/verify.py $(NAME) $(if $(UNITS),--units $(UNITS),$(if $(NAME),,--quick))

smoke: $(VENV)/installed  ## run every stage tiny in a temporary copy: minutes, offline
	@$(RUN) pipelines/smoke.py

test: $(VENV)/installed  ## the tests that every change must pass: minutes | TIMEOUT=60: seconds for a test, on a slow machine | PYTHON=python3.13 VENV=build/python3.13: on another interpreter
	@$(TEST) -m "not slow" --timeout $(TIMEOUT) --durations 10

test-all: test $(VENV)/site-installed  ## all tests: those of `make test`, then the slow ones
	@$(TEST) -m slow --durations 10

faults: $(VENV)/installed  ## run every fault trial: minutes | kills, damaged files, broken configs, hostile mirrors
	@$(TEST) -m trial

prices: $(VENV)/installed  ## test 1,000 random settings of each kind of price: minutes
	@CASES=1000 $(TEST) tests/privacy/test_random_prices.py

lint: $(VENV)/installed  ## run ruff (lint, format), mypy, the import rule and the ceilings
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports
	@$(RUN) pipelines/size.py

bench: $(VENV)/installed  ## time against scipy, JAX, Opacus and others | installs requirements-bench.lock
	@$(PIP) --no-deps -r requirements-bench.lock
	@$(RUN) benchmarks/bench.py

audits: $(VENV)/installed  ## audit learners of other packages: an hour or two | NAME=pca: one; installs requirements-audits.lock
	@$(PIP) --no-deps --upgrade --target build/audits -r requirements-audits.lock
	@PYTHONPATH=build/audits:$(PYTHONPATH) OMP_NUM_THREADS=1 $(RUN) benchmarks/audits.py $(NAME)

gpu: $(VENV)/installed  ## on a machine with a GPU: run the tests marked gpu, | compare committed rows, write times to benchmarks/gpu.md
	@$(RUN) benchmarks/gpu.py
