#!/usr/bin/env bash
# Print the path of a Python 3.11 or newer that can make virtual environments, or say what to install.
# PYTHON=/path/to/python chooses one by hand.
set -euo pipefail

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

can_make_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
    if ! usable "$candidate"; then
        continue
    fi
    path="$("$candidate" -c 'import sys; print(sys.executable)')"
    if ! can_make_venv "$path" && [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
        version="$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
        echo "== installing python$version-venv with apt-get" >&2
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >&2
    fi
    if can_make_venv "$path"; then
        echo "$path"
        exit 0
    fi
    echo "error: $path cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv" >&2
    exit 1
done
echo "error: hiveacid needs Python 3.11 or newer and found none${PYTHON:+ at PYTHON=$PYTHON}." >&2
echo "  Debian, Ubuntu: apt-get install python3 python3-venv    macOS: brew install python@3.11" >&2
exit 1
