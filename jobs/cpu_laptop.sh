#!/usr/bin/env bash
# The embedded model on a machine without a GPU, through the job API of a Ray started by hand:
#
#   ray start --head        # once; `ray stop` afterwards
#   jobs/cpu_laptop.sh [more overrides]
#
# `make audit` does the same without a cluster.
set -euo pipefail
cd "$(dirname "$0")/.."
RUN_DIR="${RUN_DIR:-$PWD/outputs/job}"
exec ray job submit --runtime-env jobs/runtime_env.yaml -- \
  python -m audit.sweep cluster=ray_address model=smollm2_135m benchmark=elementary n=100 r=1..3 \
  "run_dir=$RUN_DIR" "$@"
