#!/bin/sh
# The interpreter of the virtual environment, for `make setup`: the one that is named, else python3 if its version is one that the
# tests run on, else the newest such version on PATH.
#   sh pipelines/interpreter.sh [NAME]    prints it; status 1 and one line where there is none
#   sh pipelines/interpreter.sh --all     prints version and interpreter of every such version on PATH or in pyenv, newest first
tested="3.13 3.12 3.11"

# Version of an interpreter that runs and can make an environment; nothing for a shim without a version behind it
version() {
  "$1" -c 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

if [ "$1" = --all ]; then
  for each in $tested; do
    for candidate in "python$each" python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$each".*/bin/python; do
      [ "$(version "$candidate")" = "$each" ] && echo "$each $candidate" && break
    done
  done
  exit 0
fi
for candidate in ${1:-python3 $(printf 'python%s ' $tested)}; do
  found=$(version "$candidate")
  case " $tested " in *" ${found:-none} "*) echo "$candidate"; exit 0 ;; esac
done
if [ -n "$1" ] && [ -n "$found" ] && [ "${found#3.}" -ge "${tested##*.}" ]; then
  echo "$1 is Python $found, on which nothing here has been tested." >&2
  echo "$1"
  exit 0
fi
no="no Python of ${tested##* } to ${tested%% *} that can make a virtual environment"
echo "${1:-What PATH has} is $no${found:+ (it is Python $found)}: name one with PYTHON=" >&2
exit 1
