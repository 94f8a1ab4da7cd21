#!/usr/bin/env bash
# Everything about the Python client: types and tests, against the server named by JETON_BIN or built from this tree.
# Needs Python 3.9 or newer with venv (on Debian: apt-get install python3-venv) and a package index for pytest and mypy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

venv="${JETON_VENV:-.venv}"
if [ ! -x "$venv/bin/pytest" ] || [ ! -x "$venv/bin/mypy" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'pytest>=8,<10' 'mypy>=1.10,<3'
fi
"$venv/bin/mypy"
exec "$venv/bin/pytest" "$@"
