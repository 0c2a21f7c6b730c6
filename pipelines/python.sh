#!/bin/sh
# What a stage runs: Python of an activated environment, else of the nearest .venv from here upwards (the copy of a queued experiment
# has none), else `python`; with src/ before the user's own PYTHONPATH.
here=$PWD
until [ -z "$here" ] || [ -x "$here/.venv/bin/python" ]; do here=${here%/*}; done
environment=${VIRTUAL_ENV:-${here:+$here/.venv}}
unset PYTHONWARNINGS  # libraries warn
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
exec "${DPL_PYTHON:-${environment:+$environment/bin/}python}" "$@"
