#!/bin/sh
# lock.sh: pin what pyproject.toml asks for, for both engines, and the tools, each with the hashes of its files.
# No address is written: no index, no find-links. UPGRADE= keeps the versions that are there.
set -eu
uv=${UV:-.venv/bin/python -m uv}
wheels=$(python3 -m pip config get global.find-links 2>/dev/null || true)
pin() {
    # shellcheck disable=SC2086  # $uv may be a command with arguments, UPGRADE empty
    $uv pip compile --quiet ${UPGRADE---upgrade} --generate-hashes --python-version 3.11 --no-emit-index-url \
        --no-emit-find-links --no-annotate --no-header "$@"
}
for engine in cpu gpu; do
    set -- pyproject.toml --extra "$engine" --extra registry --extra review --extra test --extra check \
        --override "requirements/overrides-$engine.txt"
    if [ "$engine" = cpu ]; then
        if [ -n "$wheels" ]; then
            for folder in $wheels; do set -- "$@" --find-links "$folder"; done
        else
            set -- "$@" --torch-backend cpu
        fi
    fi
    pin "$@" -o "requirements/$engine.txt"
done
# Of a build that is on no common index (torch's for the CPU) only the files at hand are known, so it has no hash.
awk '/^[A-Za-z]/ {own = /==[^ ]*\+/} own && /--hash/ {next} own {sub(/ \\$/, "")} 1' requirements/cpu.txt >requirements/.cpu
mv requirements/.cpu requirements/cpu.txt
for tool in uv docs sbom; do
    pin "requirements/$tool.in" -o "requirements/$tool.txt"
done
