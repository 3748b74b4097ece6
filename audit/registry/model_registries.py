"""A run's result at a model version in MLflow (through its REST interface), and in Weights & Biases where installed.

Tags carry the run's key in their names, so another audit adds others; one that is there with another value is refused.
Where the server is, and who asks, is said by MLflow's own variables: MLFLOW_TRACKING_URI, and MLFLOW_TRACKING_TOKEN or
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
"""

import importlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from audit.errors import ConfigError, RegistryError
from audit.governance.ruling import verdict_path
from audit.registry.cards import facts_of
from audit.registry.entry import read_entry

_TIMEOUT_S = 10
_WAITS_S = (0.3, 1.0)
_ARTIFACTS = "mlflow-artifacts:/"
MAX_VALUE = 5000  # characters of a tag's value, as MLflow has it


def tag_mlflow(run_dir: Path, name: str, version: str, model: str | None = None) -> list[str]:
    """Tag a model version with the result and attach verdict.json to the run that made it; a line for each thing done.

    Raises ConfigError for a version that is not there or is tagged otherwise, RegistryError where the server fails.
    """
    entry = read_entry(run_dir)
    _, facts = facts_of(entry, model)
    server = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise ConfigError("Expected MLFLOW_TRACKING_URI in the environment, such as http://127.0.0.1:5000.")
    asked = {"name": name, "version": version}
    found = _call("GET", f"{server}/api/2.0/mlflow/model-versions/get", params=asked).json()["model_version"]
    there = {tag["key"]: tag["value"] for tag in found.get("tags", ())}
    wanted = tags_of(facts)
    for key, value in wanted.items():
        if there.get(key, value) != value:
            raise ConfigError(
                f"{name} {version} has the tag {key} with another value: {there[key]!r}. Nothing was changed."
            )
    for key, value in wanted.items():
        if key not in there:
            _call("POST", f"{server}/api/2.0/mlflow/model-versions/set-tag", json={**asked, "key": key, "value": value})
    lines = [
        f"tagged   {name} {version}: {len(set(wanted) - set(there))} tags, {len(set(wanted) & set(there))} there before"
    ]
    lines.append(_attach(server, found.get("run_id"), verdict_path(run_dir), entry.key[:12]))
    return lines


def tags_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a result; their names begin with the run's key."""
    head = f"audit.{facts['key'][:12]}"
    tags = {f"{head}.{key}": str(facts[key]) for key in ("key", "audit", "decision", "verdict_sha256", "ended")}
    for cell in facts["cells"]:
        of = cell["benchmark"] + (f".{cell['context']}" if cell["context"] else "")
        of = re.sub(r"[^A-Za-z0-9_\-. /:]", "_", of)  # the characters that MLflow takes in a tag's name
        tags[f"{head}.{of}.verdict"] = cell["verdict"]
        tags[f"{head}.{of}.headline"] = cell["headline"]
        tags[f"{head}.{of}.model_revision"] = cell["model_revision"]
        for one in cell["indicators"]:
            if one["estimate"] is not None:
                limits = f" [{one['low']:.4g}, {one['high']:.4g}]" if one["low"] is not None else ""
                tags[f"{head}.{of}.{one['name']}"] = f"{one['estimate']:.4g}{limits}"
    return {key[:250]: value[:MAX_VALUE] or "none" for key, value in tags.items()}


def log_wandb(run_dir: Path, project: str) -> str:
    """The result as a run and an artifact of W&B, under the run's key; WANDB_* variables say where and who."""
    try:
        wandb = importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError("W&B is not installed: pip install wandb") from error
    entry = read_entry(run_dir)
    try:
        with wandb.init(project=project, id=f"audit-{entry.key[:12]}", job_type="audit", resume="never") as run:
            for name in sorted({cell.model for cell in entry.cells}):
                for key, value in tags_of(facts_of(entry, name)[1]).items():
                    run.summary[f"{name}/{key}"] = value
            artifact = wandb.Artifact(f"audit-{entry.key[:12]}", type="audit", metadata={"key": entry.key})
            artifact.add_file(str(verdict_path(run_dir)), name="verdict.json")
            run.log_artifact(artifact)
    except wandb.Error as error:
        raise RegistryError(f"W&B did not take it: {type(error).__name__}") from None
    return f"logged   audit-{entry.key[:12]} in {project}"


def _attach(server: str, run_id: str | None, verdict: Path, short: str) -> str:
    if not run_id:
        return "verdict  not attached: the version names no run of MLflow"
    run = _call("GET", f"{server}/api/2.0/mlflow/runs/get", params={"run_id": run_id}).json()["run"]
    place = str(run["info"]["artifact_uri"])
    if not place.startswith(_ARTIFACTS):
        return "verdict  not attached: the server does not serve its artifacts (mlflow server --serve-artifacts)"
    path = f"{quote(place.removeprefix(_ARTIFACTS).strip('/'))}/audit/{short}/verdict.json"
    _call("PUT", f"{server}/api/2.0/mlflow-artifacts/artifacts/{path}", data=verdict.read_bytes())
    return f"verdict  audit/{short}/verdict.json of run {run_id}"


def _call(method: str, url: str, **asked: Any) -> Any:
    """A call that may be repeated, and is where the server fails; its answer."""
    import requests

    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    login = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", "")) if user and not token else None
    what = url.split("/api/2.0/")[-1].split("?")[0]
    for wait in (*_WAITS_S, None):
        try:
            answer = requests.request(method, url, headers=headers, auth=login, timeout=_TIMEOUT_S, **asked)
        except requests.RequestException as error:
            problem = f"MLflow did not answer ({what}): {type(error).__name__}"
        else:
            if answer.status_code < 400:
                return answer
            problem = f"MLflow refused {what} with {answer.status_code}: {answer.text[:200]}"
            if answer.status_code < 500:
                raise ConfigError(problem)
        if wait is None:
            raise RegistryError(problem)
        time.sleep(wait)
    raise AssertionError("unreachable")
