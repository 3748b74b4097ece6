#!/usr/bin/env bash
# Models behind OpenAI-compatible endpoints: no GPU here, only requests. The key is read from the environment of the
# node that runs the engine (endpoint.api_key_env names the variable) and is written nowhere.
#
#   RAY_API_SERVER_ADDRESS=http://HEAD:8265 RUN_DIR=/runs/endpoint \
#     jobs/openai_endpoints.sh 'model.openai_compatible.endpoints=[{url: "http://10.0.0.7:8000/v1", model: my-model}]'
set -euo pipefail
cd "$(dirname "$0")/.."
: "${RUN_DIR:?Set RUN_DIR to a folder on storage that every node sees, such as RUN_DIR=/runs/endpoint}"
exec ray job submit --runtime-env jobs/runtime_env.yaml -- \
  python -m audit.sweep cluster=ray_address model=openai_compatible benchmark=arc_challenge n=500 r=1..9 \
  "run_dir=$RUN_DIR" "$@"
