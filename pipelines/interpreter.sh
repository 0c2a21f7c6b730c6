#!/bin/sh
# The interpreter of the virtual environment, for `make setup`: the one that is named, else python3 if its version is one that the
# tests run on, else the newest such version on PATH.
#   sh pipelines/interpreter.sh [NAME]    prints it; status 1 and one line where there is none
#   sh pipelines/interpreter.sh --all     prints version and interpreter of every such version on PATH or in pyenv, newest first
tested="3.13 3.12 3.11"
oldest=3.11

# Version of an interpreter that runs and can make an environment; nothing for a shim without a version behind it
version() {
  "$1" -c 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

is_tested() {
  case " $tested " in *" $1 "*) [ -n "$1" ] ;; *) false ;; esac
}

if [ "$1" = --all ]; then
  for each in $tested; do
    for candidate in "python$each" python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$each".*/bin/python; do
      if [ "$(version "$candidate")" = "$each" ]; then
        echo "$each $candidate"
        break
      fi
    done
  done
elif [ -n "$1" ]; then
  found=$(version "$1")
  if ! command -v "$1" >/dev/null; then
    echo "There is no $1 on this machine: name a Python of ${tested##* } to ${tested%% *} with PYTHON=" >&2
    exit 1
  elif [ -z "$found" ]; then
    echo "$1 cannot make a virtual environment (it lacks venv or ensurepip, or does not run): name another with PYTHON=" >&2
    exit 1
  elif [ "${found#3.}" -lt "${oldest#3.}" ]; then
    echo "$1 is Python $found: $oldest or later is needed; name one with PYTHON=python${tested%% *}" >&2
    exit 1
  fi
  is_tested "$found" || echo "$1 is Python $found, on which nothing here has been tested." >&2
  echo "$1"
else
  for candidate in python3 $(printf 'python%s ' $tested); do
    if is_tested "$(version "$candidate")"; then
      echo "$candidate"
      exit 0
    fi
  done
  echo "No Python of ${tested##* } to ${tested%% *} that can make a virtual environment is on PATH: name one with PYTHON=" >&2
  exit 1
fi
