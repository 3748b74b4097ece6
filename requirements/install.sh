#!/bin/sh
# install.sh cpu|gpu VENV: the pinned packages and this project, with uv, into VENV.
set -eu
engine=$1
venv=$2
python=${PYTHON:-python3}

"$python" - <<'PY'
import sys
if not (3, 11) <= sys.version_info[:2] < (3, 13):
    sys.exit(f"Python {sys.version.split()[0]} found; 3.11 or 3.12 is needed. Example: make audit PYTHON=python3.11")
PY

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null  # a venv made by uv
"$venv/bin/python" -m uv --version >/dev/null 2>&1 || "$venv/bin/python" -m pip install --quiet --require-hashes -r requirements/uv.txt

set -- --python "$venv/bin/python" --override "requirements/overrides-$engine.txt" -r "requirements/$engine.txt"
if [ "$engine" = cpu ]; then
    # torch's CPU build is not on PyPI: it is in a folder of wheels that pip is configured with, or on PyTorch's index.
    wheels=$("$venv/bin/python" -m pip config get global.find-links 2>/dev/null || true)
    if [ -n "$wheels" ]; then
        for folder in $wheels; do set -- "$@" --find-links "$folder"; done
    else
        set -- "$@" --torch-backend cpu
    fi
fi
"$venv/bin/python" -m uv pip install "$@"
"$venv/bin/python" -m uv pip install --python "$venv/bin/python" --no-deps --editable .
