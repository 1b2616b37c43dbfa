#!/bin/sh
# Makes the environment ready: an interpreter of 3.11 or newer, locked packages, dutiful itself (editable).
# Needs nothing but a POSIX shell; as root on Debian it installs a missing interpreter itself.
#
#   sh scripts/bootstrap.sh        everything that tests and contributors need (requirements/dev.lock)
#   sh scripts/bootstrap.sh run    what `make run` needs (requirements/run.lock)
#
# PYTHON names the interpreter, VENV the folder of the environment [.venv].
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
case ${1:-dev} in
    run) lock=requirements/run.lock ;;
    dev) lock=requirements/dev.lock ;;
    *) printf 'usage: sh scripts/bootstrap.sh [run]\n' >&2; exit 2 ;;
esac

# The locks name versions and hashes; an interpreter is never downloaded behind the user's back.
# uv brings its own list of certificate authorities; the system's list also knows those of a company.
export UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1 UV_LINK_MODE=copy UV_SYSTEM_CERTS=1 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# dpkg writes a line for each step whatever -qq says, so the output is shown only where apt-get fails.
apt_install() {
    say "installing $* with apt-get"
    log=$(mktemp)
    if { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# The tests of the dashboard drive a real browser; where there is none they are skipped with a reason.
has_browser() {
    for name in chromium chromium-browser google-chrome; do
        if command -v "$name" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

# Pages are drawn in Inter, so that pictures and widths are the same on every machine.
has_font() { fc-list -q Inter 2>/dev/null; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null 2>&1 && new_enough "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# Debian ships an interpreter whose venv module fails for want of ensurepip.
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if ! python=$(find_python); then
    can_apt || die "needs Python 3.11 or newer on PATH (Debian: apt-get install python3 python3-venv)"
    apt_install python3 python3-venv
    python=$(find_python) || die "apt-get gave no Python 3.11 or newer; put one on PATH and run make again"
fi
if ! has_venv "$python"; then
    can_apt || die "$python has no venv module; install it (Debian: apt-get install python3-venv)"
    apt_install python3-venv
    has_venv "$python" || die "$python still has no venv module; set PYTHON to an interpreter that has it"
fi

if [ "$lock" = requirements/dev.lock ] && can_apt; then
    set --
    has_browser || set -- chromium libatomic1
    has_font || set -- "$@" fontconfig fonts-inter fonts-dejavu-core
    [ $# = 0 ] || apt_install "$@" || say "without a browser the tests of the dashboard are skipped"
fi

# A half-made environment, or one moved from elsewhere, is made anew.
if ! "$venv/bin/python" -c 'import sys' >/dev/null 2>&1 || ! new_enough "$venv/bin/python"; then
    say "creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

uv_pin=$(sed -n 's/^\(uv==[^ ;\\]*\).*/\1/p' requirements/dev.lock)
if [ "$("$venv/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "${uv_pin#uv==}" ]; then
    say "installing $uv_pin"
    awk '/^uv==/ { on = 1 } on { print } on && !/\\$/ { exit }' requirements/dev.lock > "$venv/uv.lock"
    "$venv/bin/python" -m pip install --quiet --require-hashes -r "$venv/uv.lock"
fi

say "installing the packages of $lock"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes --compile-bytecode -r "$lock"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
touch "$venv/.ready-run"
[ "$lock" = requirements/run.lock ] || touch "$venv/.ready"
say "ready"
