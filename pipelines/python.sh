#!/bin/sh
# What a stage runs: Python of the project's environment, with src/ before the user's own PYTHONPATH. It is that of an activated
# environment, else the nearest .venv from here upwards (the copy of a queued experiment has none), else `python`.
interpreter=python
if [ -n "$VIRTUAL_ENV" ]; then
  interpreter=$VIRTUAL_ENV/bin/python
else
  here=$PWD
  while [ -n "$here" ]; do
    if [ -x "$here/.venv/bin/python" ]; then
      interpreter=$here/.venv/bin/python
      break
    fi
    here=${here%/*}
  done
fi
unset PYTHONWARNINGS  # libraries warn
PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} "${DPL_PYTHON:-$interpreter}" "$@"
status=$?
if [ -n "$DPL_LOG" ]; then  # for pipelines/summary.py
  echo "$DVC_STAGE $status" >> "$DPL_LOG/stages"
fi
if [ $status -ne 0 ] && [ -n "$DVC_EXP_NAME" ]; then
  echo "The experiment failed; \`git restore --staged --worktree params.yaml dvc.lock data/manifest results\` takes its values back." >&2
fi
exit $status
