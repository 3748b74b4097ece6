#!/usr/bin/env bash
# A panel of small models in one job and one report, on one node of four GPUs. The models run one after the other
# (on eight, two side by side), each as four replicas of one GPU, so that all GPUs work all the time. A model that fails to load is named, the
# others finish, and the job ends as FAILED.
#
#   RAY_API_SERVER_ADDRESS=http://HEAD:8265 RUN_DIR=/runs/panel jobs/panel.sh [more overrides]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${RUN_DIR:?Set RUN_DIR to a folder on storage that every node sees, such as RUN_DIR=/runs/panel}"
exec ray job submit --runtime-env jobs/runtime_env.yaml -- \
  python -m audit.sweep cluster=ray_address "model=[llama3_8b,qwen3_8b,qwen2_5_7b,mistral_7b]" \
  model.llama3_8b.replicas=4 model.qwen3_8b.replicas=4 model.qwen2_5_7b.replicas=4 model.mistral_7b.replicas=4 \
  benchmark=arc_challenge n=1000 r=1..9 draws=nested clean_replicates=3 "run_dir=$RUN_DIR" "$@"
