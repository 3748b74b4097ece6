"""Publish a run's result as metadata of a Hugging Face model, as MLflow tags, or as a W&B artifact.

Published data never changes: a different result belongs to another run, which has another key. The
names of MLflow's tags contain the run's key, so another audit adds further tags. If a tag exists
with another value, an error is raised.
"""

import importlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from audit.core.errors import AuditError, ConfigError, RegistryError
from audit.core.json_types import attributes, plain
from audit.governance.formats import markdown
from audit.judging.decision import WORST_FIRST
from audit.judging.instrument import Indicator
from audit.judging.result import json_ready
from audit.registry.entry import Cell, Entry, read_entry
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import Manifest
from audit.shards.panel import verdict_path


def facts_of(entry: Entry, model: str | None) -> tuple[list[Cell], dict[str, Any]]:
    """Return the results of a run for one model, and the facts for the model card.

    Parameters
    ----------
    entry : Entry
        The registered facts of the run.
    model : str or None
        The name of the model; None if the run judged only one model.

    Returns
    -------
    cells : list of Cell
        One cell for each benchmark of the model.
    facts : dict
        The facts as JSON content for the card.

    Raises
    ------
    ConfigError
        If the model was not judged, or several models were judged and no model is named.
    """
    judged = sorted({cell.model for cell in entry.cells})
    name = model or (judged[0] if len(judged) == 1 else "")
    if name not in judged:
        raise ConfigError(
            f"{entry.run_dir} judged {', '.join(judged)}. Expected one of them: --model {judged[0]}"
        )
    cells = []
    for cell in entry.cells:
        if cell.model == name:
            cells.append(cell)
    names = (
        "key",
        "audit",
        "fingerprint",
        "answers_sha256",
        "verdict_sha256",
        "suite",
        "suite_sha256",
        "ended",
    )
    rows = [json_ready(plain(asdict(cell))) for cell in cells]
    for row in rows:
        del row["ids"]
    # The decision on several cells together is the worst decision on one of the cells.
    worst = min((cell.decision for cell in cells), key=WORST_FIRST.index)
    return cells, {
        **attributes(entry, *names),
        "decision": str(worst),
        "decision_of_the_run": str(entry.ruling.verdict_decision),
        "cells": rows,
    }


def write_card(
    run_dir: Path, out: Path, dataset: str | None = None, model: str | None = None
) -> list[Path]:
    """Write the result as files for a model's repository.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    out : Path
        Folder of the repository.
    dataset : str or None
        The id of the benchmark on the hub. If None, the id in the run's configuration is used.
    model : str or None
        As in `facts_of`.

    Returns
    -------
    list of Path
        The written files: the facts, the card, and .eval_results if the benchmark's id on the hub
        is known. If the folder has a README.md, the card is added to this file.

    Raises
    ------
    ConfigError
        If the folder holds other facts about the same run.
    """
    entry = read_entry(run_dir)
    cells, facts = facts_of(entry, model)
    hub = dataset or _hub_id(run_dir)
    name = f"audit-{entry.key[:12]}"
    written = [_once(out / f"{name}.json", json.dumps(facts, indent=1, sort_keys=True) + "\n")]
    if hub is not None:
        written.append(
            _once(out / ".eval_results" / f"{name}.yaml", _eval_results(cells, hub, entry))
        )
    return [*written, _card(out / "README.md", cells, entry, hub)]


def push_card(out: Path, repository: str) -> str:
    """Upload the files of `write_card` to a model's repository.

    The access token is read from the environment variable HF_TOKEN.

    Parameters
    ----------
    out : Path
        Folder of the files.
    repository : str
        Id of the repository.

    Returns
    -------
    str
        URL of the commit.

    Raises
    ------
    ConfigError
        If HF_TOKEN is not set.
    AuditError
        If the upload fails.
    """
    if not os.environ.get("HF_TOKEN"):
        raise ConfigError(
            "HF_TOKEN is not set in the environment. --push needs it to upload files."
        )
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    patterns = ["README.md", "audit-*.json", ".eval_results/*.yaml"]
    title = "Benchmark audit"
    try:
        done = HfApi().upload_folder(
            repo_id=repository, folder_path=out, commit_message=title, allow_patterns=patterns
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise AuditError(f"{repository} could not be written: {type(error).__name__}") from None
    return str(done.commit_url)


def _card(path: Path, cells: Sequence[Cell], entry: Entry, hub: str | None) -> Path:
    from huggingface_hub import EvalResult, ModelCard

    try:
        card = ModelCard(path.read_text(encoding="utf-8") if path.is_file() else "---\n{}\n---\n")
    except ValueError as error:  # A UnicodeDecodeError is a ValueError too.
        raise ConfigError(
            f"{path} is not a model card ({error}). Expected metadata between two lines ---."
        ) from error
    mark = f"<!-- benchmark audit {entry.key} -->"
    if mark in card.content:
        return path
    results = []
    for cell, indicator in _with_estimates(cells):
        result = EvalResult(
            task_type="text-generation",
            dataset_type=hub or cell.benchmark,
            dataset_name=_named(cell),
            dataset_revision=cell.benchmark_revision or None,
            metric_type=indicator.name,
            metric_name=f"{indicator.name} ({entry.audit} audit {entry.key[:12]})",
            metric_value=indicator.estimate,
            metric_args={
                "low": indicator.low,
                "high": indicator.high,
                "verdict": cell.verdict,
                "n": cell.n,
            },
        )
        results.append(result)
    card.data.eval_results = [*(card.data.eval_results or []), *results]
    card.data.model_name = card.data.get("model_name") or cells[0].model
    card.text = f"{card.text.rstrip()}\n\n{mark}\n{_block(cells, entry)}"
    write_file(path, str(card).encode("utf-8", "backslashreplace"))
    return path


def _with_estimates(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Indicator]]:
    for cell in cells:
        for indicator in cell.indicators:
            if indicator.estimate is not None:
                yield cell, indicator


def _block(cells: Sequence[Cell], entry: Entry) -> str:
    rows = []
    for cell in cells:
        rows.append((_named(cell), cell.verdict.replace("_", " "), cell.decision, cell.headline))
    table = "\n".join(f"| {' | '.join(map(markdown, row))} |" for row in rows)
    revision = markdown(cells[0].model_revision or "not known")
    return f"""## Benchmark audit ({markdown(entry.audit)}), {entry.ended[:10]}

Revision {revision}. The verdict covers what this instrument sees, and nothing else.

| Benchmark | Verdict | Decision | |
|---|---|---|---|
{table}

Run {entry.key}; verdict sha256 {entry.verdict_sha256}.
"""


def _named(cell: Cell) -> str:
    return f"{cell.benchmark}, {cell.context}" if cell.context else cell.benchmark


def _eval_results(cells: Sequence[Cell], hub: str, entry: Entry) -> str:
    """Return the score of each benchmark, in percent, in the `.eval_results` format of the hub."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = []
    for cell, indicator in _with_estimates(cells):
        if indicator.name == "score" and indicator.estimate is not None:
            commit = "" if ":" in cell.benchmark_revision else cell.benchmark_revision
            score = EvalResultEntry(
                dataset_id=hub,
                task_id=cell.context or "default",
                value=round(100 * indicator.estimate, 4),
                dataset_revision=commit or None,
                date=entry.ended[:10],
                notes=f"{cell.verdict} ({entry.audit} audit {entry.key[:12]}), n={cell.n}",
            )
            entries.append(score)
    return str(
        yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    )


def _once(path: Path, text: str) -> Path:
    """Write a file. Raises ConfigError if the file exists with other content."""
    make_folder(path.parent)
    if not path.is_file():
        write_file(path, text.encode())
    elif path.read_bytes() != text.encode():
        raise ConfigError(
            f"{path} holds another result of the same run. Move the file away to write it again."
        )
    return path


def _hub_id(run_dir: Path) -> str | None:
    benchmark = Manifest.load(run_dir).config.get("benchmark")
    # If benchmark.path is set, the benchmark is not loaded from the hub.
    if not isinstance(benchmark, dict) or benchmark.get("path"):
        return None
    return str(benchmark["hub"]) if benchmark.get("hub") else None


_TIMEOUT_S = 10
_RETRIES = {
    "total": 2,
    "backoff_factor": 0.5,
    "status_forcelist": range(500, 600),
    # Failed calls are repeated for all HTTP methods, since writing a tag or a file twice is
    # harmless.
    "allowed_methods": None,
    "raise_on_status": False,
    "respect_retry_after_header": False,  # the server may request an hour of waiting
}
_ARTIFACTS = "mlflow-artifacts:/"
MAX_VALUE = 5000  # MLflow's limit for the characters of a tag's value


def tag_mlflow(run_dir: Path, name: str, version: str, model: str | None = None) -> list[str]:
    """Tag a model version in MLflow with the result of a run.

    The file verdict.json is attached to the MLflow run that produced the version.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    name, version : str
        Name and version of the registered model.
    model : str or None
        As in `facts_of`.

    Returns
    -------
    list of str
        Lines for the terminal, one for each step.

    Raises
    ------
    ConfigError
        If the version does not exist or has a tag with another value.
    RegistryError
        If the server fails.
    """
    entry = read_entry(run_dir)
    _, facts = facts_of(entry, model)
    server = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(
            "MLFLOW_TRACKING_URI is missing in the environment. Example: http://127.0.0.1:5000"
        )
    identity = {"name": name, "version": version}
    response = _call("GET", f"{server}/api/2.0/mlflow/model-versions/get", params=identity)
    model_version = response.json()["model_version"]
    stored = {tag["key"]: tag["value"] for tag in model_version.get("tags", ())}
    wanted = tags_of(facts)
    conflicts = []
    for key, value in wanted.items():
        if stored.get(key, value) != value:
            conflicts.append(key)
    if conflicts:
        key = conflicts[0]
        raise ConfigError(
            f"The tag {key} of {name} {version} is {stored[key]!r}, not the value of this "
            "result. Nothing was changed."
        )
    new = wanted.keys() - stored
    for key in sorted(new):
        tag = {**identity, "key": key, "value": wanted[key]}
        _call("POST", f"{server}/api/2.0/mlflow/model-versions/set-tag", json=tag)
    tagged = f"tagged   {name} {version}: {len(new)} tags, {len(wanted) - len(new)} existing"
    return [
        tagged,
        _attach(server, model_version.get("run_id"), verdict_path(run_dir), entry.key[:12]),
    ]


def tags_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the MLflow tags of a result. The names of the tags begin with the run's key."""
    head = f"audit.{facts['key'][:12]}"
    tags = {}
    for key in ("key", "audit", "decision", "verdict_sha256", "ended"):
        tags[f"{head}.{key}"] = str(facts[key])
    for cell in facts["cells"]:
        of = cell["benchmark"] + (f".{cell['context']}" if cell["context"] else "")
        # MLflow allows these characters in a tag's name.
        of = re.sub(r"[^A-Za-z0-9_\-. /:]", "_", of)
        tags[f"{head}.{of}.verdict"] = cell["verdict"]
        tags[f"{head}.{of}.headline"] = cell["headline"]
        tags[f"{head}.{of}.model_revision"] = cell["model_revision"]
        for indicator in cell["indicators"]:
            if indicator["estimate"] is not None:
                limits = (
                    f" [{indicator['low']:.4g}, {indicator['high']:.4g}]"
                    if indicator["low"] is not None
                    else ""
                )
                tags[f"{head}.{of}.{indicator['name']}"] = f"{indicator['estimate']:.4g}{limits}"
    return {key[:250]: value[:MAX_VALUE] or "none" for key, value in tags.items()}


def log_wandb(run_dir: Path, project: str) -> str:
    """Log the result as a run and an artifact of W&B, under the run's key.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    project : str
        Name of the W&B project. The environment variables WANDB_* set the account.

    Returns
    -------
    str
        A line for the terminal.

    Raises
    ------
    ConfigError
        If W&B is not installed.
    RegistryError
        If W&B fails.
    """
    try:
        wandb = importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError("W&B is not installed: pip install wandb") from error
    entry = read_entry(run_dir)
    try:
        with wandb.init(
            project=project, id=f"audit-{entry.key[:12]}", job_type="audit", resume="never"
        ) as run:
            for name in sorted({cell.model for cell in entry.cells}):
                for key, value in tags_of(facts_of(entry, name)[1]).items():
                    run.summary[f"{name}/{key}"] = value
            artifact = wandb.Artifact(
                f"audit-{entry.key[:12]}", type="audit", metadata={"key": entry.key}
            )
            artifact.add_file(str(verdict_path(run_dir)), name="verdict.json")
            run.log_artifact(artifact)
    except wandb.Error as error:
        raise RegistryError(f"W&B refused the result: {type(error).__name__}") from None
    return f"logged   audit-{entry.key[:12]} in {project}"


def _attach(server: str, run_id: str | None, verdict: Path, short: str) -> str:
    if not run_id:
        return "verdict  not attached: the model version has no run in MLflow"
    run = _call("GET", f"{server}/api/2.0/mlflow/runs/get", params={"run_id": run_id}).json()["run"]
    place = str(run["info"]["artifact_uri"])
    if not place.startswith(_ARTIFACTS):
        return "verdict  not attached: the server does not serve its artifacts (mlflow server --serve-artifacts)"
    path = f"{quote(place.removeprefix(_ARTIFACTS).strip('/'))}/audit/{short}/verdict.json"
    _call("PUT", f"{server}/api/2.0/mlflow-artifacts/artifacts/{path}", data=verdict.read_bytes())
    return f"verdict  audit/{short}/verdict.json of run {run_id}"


def _call(method: str, url: str, **request: Any) -> Any:
    """Call MLflow's server and return its response. If the server fails, the call is repeated."""
    import requests
    from requests.adapters import HTTPAdapter, Retry

    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    login = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", "")) if user and not token else None
    path = url.split("/api/2.0/")[-1].split("?")[0]
    with requests.Session() as session:
        session.mount(url.partition("//")[0] + "//", HTTPAdapter(max_retries=Retry(**_RETRIES)))
        try:
            response = session.request(
                method, url, headers=headers, auth=login, timeout=_TIMEOUT_S, **request
            )
        except requests.RequestException as error:
            raise RegistryError(f"MLflow did not answer ({path}): {type(error).__name__}") from None
    if response.status_code >= 400:
        kind = RegistryError if response.status_code >= 500 else ConfigError
        raise kind(f"MLflow refused {path} with {response.status_code}: {response.text[:200]}")
    return response
