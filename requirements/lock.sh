#!/bin/sh
# lock.sh: pin what pyproject.toml asks for, for both engines. No address is written: no index, no find-links.
set -eu
uv=${UV:-.venv/bin/python -m uv}
wheels=$(python3 -m pip config get global.find-links 2>/dev/null || true)
for engine in cpu gpu; do
    set -- pyproject.toml --extra "$engine" --extra registry --extra review --extra test --extra check --python-version 3.11 \
        --override requirements/overrides.txt --no-emit-index-url --no-emit-find-links --no-annotate --no-header
    if [ "$engine" = cpu ]; then
        if [ -n "$wheels" ]; then
            for folder in $wheels; do set -- "$@" --find-links "$folder"; done
        else
            set -- "$@" --torch-backend cpu
        fi
    fi
    # shellcheck disable=SC2086  # $uv may be a command with arguments
    $uv pip compile --quiet --upgrade "$@" -o "requirements/$engine.txt"
done
