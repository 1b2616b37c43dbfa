#!/bin/sh
# Runs `make test` with each supported Python that is on PATH; the environments are .venv-3.11 and so on.
# Exit code 1 if a run fails or no interpreter is there; an interpreter that is missing is named.
set -u
cd "$(dirname "$0")/.."
passed= failed= missing=
for version in 3.11 3.12 3.13; do
    if ! "python$version" -c 'import sys' >/dev/null 2>&1; then
        missing="$missing $version"
    elif PYTHON="python$version" VENV=".venv-$version" ${MAKE:-make} test; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done
printf 'versions: passed%s; failed%s; not on PATH%s\n' "${passed:- none}" "${failed:- none}" "${missing:- none}"
[ -n "$passed" ] && [ -z "$failed" ]
