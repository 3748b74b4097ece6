#!/usr/bin/env bash
# One 70B model on one node of four 80 GB GPUs (tensor_parallel_size=4), the paper's sweep with the controls that a
# verdict asks for. RUN_DIR must be on storage that every node sees: shards are written by workers, and a repeated
# submission with the same RUN_DIR resumes.
#
#   RAY_API_SERVER_ADDRESS=http://HEAD:8265 RUN_DIR=/runs/llama3_70b jobs/llama3_70b.sh [more overrides]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${RUN_DIR:?Set RUN_DIR to a folder on storage that every node sees, such as RUN_DIR=/runs/llama3_70b}"
exec ray job submit --runtime-env jobs/runtime_env.yaml -- \
  python -m audit.sweep cluster=ray_address model=llama3_70b benchmark=mmlu n=1000 r=1..9 \
  clean_replicates=3 ensemble_control=true "run_dir=$RUN_DIR" "$@"
