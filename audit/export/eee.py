"""Export a run in the format Every Eval Ever (arXiv 2606.14516), or as evaluation results of the
Hugging Face hub.

`audit export eee RUN_DIR` writes two files for each model and benchmark: an aggregate with the
totals, and the samples. Both files conform to the JSON Schemas in `audit/data/every_eval_ever`.
`audit export hub RUN_DIR` writes accuracies in the format that the hub shows on a model's page
(https://huggingface.co/docs/hub/eval-results).

An instance record requires a boolean `is_correct`, but an unparsed answer is neither right nor
wrong. Therefore the record of an unparsed answer has an `error`. Its `is_correct` has no meaning,
and the record is left out of every accuracy.
"""

import hashlib
import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import yaml
from jsonschema import Draft7Validator

from audit.config.audits import audit_of
from audit.core.errors import ConfigError
from audit.core.records import AS_PUBLISHED, Reading
from audit.export.inspect_log import Tally, answer_of, asked_rows, gold_of, usage_of
from audit.shards.complete import cell_rows, count_rows
from audit.shards.files import check_new, make_folder, whole_file, write_file
from audit.shards.manifest import Manifest

VERSION = "0.3.0"
FOLDER, HUB = "every_eval_ever", "hub"
AGGREGATE, INSTANCE = "eval.schema.json", "instance_level_eval.schema.json"
UNPARSED = "unparsed: no answer could be read from the reply"
_HUB_ID, _COMMIT = re.compile(r"[\w-]+/[\w.-]+"), re.compile(r"[0-9a-f]{40}")


@cache
def validator(name: str) -> Any:
    """Return the validator of the JSON Schema in the file `name` (AGGREGATE or INSTANCE)."""
    return Draft7Validator(json.loads(files("audit").joinpath("data", FOLDER, name).read_text()))


def answered(run_dir: Path, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every row that required an answer, together with the name of its evaluation.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    schema : RowSchema
        Schema of the audit's rows.

    Yields
    ------
    tuple of str and dict
        The evaluation's name and the row. If the question was asked as published, the name is the
        benchmark's name. Otherwise the name also contains the condition.
    """
    for row in asked_rows(run_dir, schema):
        if row["reading"] != Reading.TEXT:  # A text whose likelihood was measured has no answer.
            level, name = row[schema.level], row["benchmark"]
            as_published = row["arm"] in AS_PUBLISHED and level == 0
            yield name if as_published else f"{name} {row['arm']} {schema.level} {level}", row


def hub_model(name: str, facts: Mapping[str, Any]) -> str:
    """Return the name of a model in the export.

    Parameters
    ----------
    name : str
        Name of the model in the run.
    facts : mapping
        Facts about the model in the manifest.

    Returns
    -------
    str
        Id of the model on the hub if its weights come from the hub, otherwise its name.
    """
    path = str(facts.get("path") or "")
    is_commit = _COMMIT.fullmatch(str(facts.get("revision")))
    return path if is_commit and _HUB_ID.fullmatch(path) else name


@dataclass
class _Pair:
    """Hold an aggregate and its samples while both files are written.

    `settings` maps the name of each evaluation to the counts of its answers.
    """

    head: dict[str, Any]
    target: Path
    out: IO[bytes]
    digest: Any = field(default_factory=hashlib.sha256)
    rows: int = 0
    settings: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def add(self, name: str, row: Mapping[str, Any], level: str) -> None:
        """Write the record of a row.

        Parameters
        ----------
        name : str
            Name of the evaluation.
        row : mapping
            A row of a shard: one answer of a model with its metadata.
        level : str
            Name of the audit's level column.
        """
        self.settings[name].add(row)
        record = {
            "schema_version": self.head["schema_version"],
            "evaluation_id": self.head["evaluation_id"],
            "model_id": self.head["model_info"]["id"],
            **sample_of(name, row, level),
        }
        text = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        line = text.encode("utf-8", "backslashreplace")
        self.digest.update(line)
        self.out.write(line)
        self.rows += 1


def export_eee(run_dir: Path, out: Path, organization: str) -> list[tuple[Path, str]]:
    """Write the aggregates and samples of a run under OUT/data.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    out : Path
        Folder to write into.
    organization : str
        Name of the organization that made the evaluation.

    Returns
    -------
    list of (Path, str)
        Path of each aggregate, and a note about missing answers ("" if no answer is missing).

    Raises
    ------
    ConfigError
        If the folder is not a run.
    ShardError
        If a shard cannot be read, or if a file cannot be written.
    """
    manifest, schema = Manifest.load(run_dir), audit_of(run_dir).schema
    missing = [manifest.status] if manifest.status != "finished" else []
    for rows in cell_rows(run_dir, count_rows(run_dir, schema)):
        if rows.watermark:
            missing.append(f"{rows.model} on {rows.benchmark} {rows.watermark}")
    pairs: dict[tuple[str, str], _Pair] = {}
    with ExitStack() as stack:
        for name, row in answered(run_dir, schema):
            key = row["model"], row["benchmark"]
            if key not in pairs:
                head, place = head_of(manifest, *key, organization)
                target = out / place
                make_folder(target.parent)
                pairs[key] = _Pair(head, target, stack.enter_context(whole_file(_samples(target))))
            pairs[key].add(name, row, schema.level)
    written = []
    for (_, benchmark), pair in pairs.items():
        if missing:
            pair.head["eval_library"]["additional_details"]["incomplete"] = "; ".join(missing)
        content = _aggregate(
            pair, manifest, benchmark, _samples(pair.target).relative_to(out).as_posix()
        )
        write_file(pair.target, json.dumps(content, indent=1, allow_nan=False).encode())
        unparsed = [f"{name}: {tally.note}" for name, tally in pair.settings.items() if tally.note]
        written.append((pair.target, "; ".join([*missing, *unparsed])))
    return written


def _samples(aggregate: Path) -> Path:
    """Return the path of the samples that belong to an aggregate."""
    return aggregate.with_name(f"{aggregate.stem}_samples.jsonl")


def head_of(
    manifest: Any, model: str, benchmark: str, organization: str
) -> tuple[dict[str, Any], str]:
    """Return an aggregate without its results, and the path of its file below the output folder.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the run.
    model, benchmark : str
        Names of the model and of the benchmark.
    organization : str
        Name of the organization that made the evaluation.

    Returns
    -------
    tuple of dict and str
        The aggregate and the path. Both depend only on the run, so a repeated export gives the same
        result.
    """
    facts = manifest.models.get(model, {})
    moment = manifest.ended or manifest.started
    when = str(int(datetime.fromisoformat(moment).timestamp()) if moment else 0)
    id_ = hub_model(model, facts)
    cell = "\0".join((manifest.fingerprint, model, benchmark))
    seed = hashlib.sha256(cell.encode()).digest()[:16]
    developer, _, rest = id_.rpartition("/")
    folders = map(safe_name, (benchmark, developer, rest))
    engine = str(facts.get("engine") or "")
    deployed = {"vllm": "self_deployed", "openai": "externally_managed"}.get(engine, "unknown")
    head = {
        "schema_version": VERSION,
        "evaluation_id": f"{benchmark}/{id_}/{when}",
        "evaluation_timestamp": manifest.started,
        "retrieved_timestamp": when,
        "source_metadata": {
            "source_name": "benchmark-audit",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "other",
        },
        "model_info": {
            "name": model,
            "id": id_,
            **({"inference_engine": {"name": engine}} if engine else {}),
            "additional_details": {
                "deployment_type": deployed,
                "model_availability": "open_weights" if id_ != model else "unknown",
                "revision": str(facts.get("revision")),
            },
        },
        "eval_library": {
            "name": "benchmark-audit",
            "version": str(manifest.packages.get("benchmark-audit", "unknown")),
            "additional_details": {"audit": manifest.audit, "run": manifest.fingerprint},
        },
    }
    return head, f"data/{'/'.join(folders)}/{uuid.UUID(bytes=seed, version=4)}.json"


def safe_name(name: str) -> str:
    """Convert a text to a valid name of a folder.

    The name cannot lead out of the parent folder.
    """
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip(".-") or "unknown"


def _aggregate(pair: _Pair, manifest: Any, benchmark: str, place: str) -> dict[str, Any]:
    """Return the content of an aggregate file, with a result for each condition that has parsed
    answers.
    """
    facts = manifest.benchmark.get(benchmark, {})
    source = {
        "dataset_name": benchmark,
        "source_type": "other",
        "additional_details": {
            "revision": str(facts.get("revision")),
            "items": str(facts.get("n")),
        },
    }
    metric = {
        "metric_id": "accuracy",
        "metric_kind": "accuracy",
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": 0,
        "max_score": 1,
        "evaluation_description": "accuracy of the parsed answers; details count the others",
    }
    results = []
    for name, tally in pair.settings.items():
        if tally.parsed:
            score = {"score": tally.right / tally.parsed, "details": tally.counts}
            results.append(
                {
                    "evaluation_result_id": name,
                    "evaluation_name": name,
                    "source_data": source,
                    "metric_config": metric,
                    "score_details": score,
                }
            )
    detailed = {
        "format": "jsonl",
        "file_path": place,
        "hash_algorithm": "sha256",
        "checksum": pair.digest.hexdigest(),
        "total_rows": pair.rows,
    }
    return {**pair.head, "evaluation_results": results, "detailed_evaluation_results": detailed}


def sample_of(name: str, row: Mapping[str, Any], level: str) -> dict[str, Any]:
    """Return the instance record of a row.

    Fields that are the same for all records of an aggregate are left out.

    Parameters
    ----------
    name : str
        Name of the evaluation.
    row : mapping
        A row of a shard: one answer of a model with its metadata.
    level : str
        Name of the audit's level column.

    Returns
    -------
    dict
        The instance record.
    """
    options = list(row["options"] or ())
    error = UNPARSED if row["error"] is None and not row["parsed"] else row["error"]
    parsed = error is None
    gold = options[row["gold"]] if options and row["gold"] >= 0 else gold_of(row)
    question = {
        "raw": row.get("wording") or row["question"] or "",
        "reference": [gold] if gold else [],
    }
    canonical = json.dumps(question, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    right, reply = parsed and bool(row["correct"]), row["response"] or ""
    attribution = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": answer_of(row) or reply[:200],
        "extraction_method": f"{row['reading']} ({row['answer_form']})",
        "is_terminal": True,
    }
    return {
        "evaluation_name": name,
        "evaluation_result_id": name,
        "sample_id": row["question_id"],
        "sample_hash": digest,
        "interaction_type": "single_turn",
        "input": {**question, "formatted": row["prompt"] or "", "choices": options or None},
        "output": {"raw": [reply]},
        "answer_attribution": [attribution] if parsed else [],
        "evaluation": {"score": float(right), "is_correct": right},
        "token_usage": usage_of(row),
        "error": error,
        "metadata": {
            "epoch": str(int(row["replicate"]) + 1),
            "arm": row["arm"],
            level: str(row[level]),
        },
    }


def export_hub(
    run_dir: Path, out: Path, task_id: str, source_url: str, *, force: bool = False
) -> list[tuple[Path, str]]:
    """Write the accuracies of a run as evaluation results of the Hugging Face hub.

    Each file has the path MODEL/.eval_results/BENCHMARK.yaml.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    out : Path
        Folder to write into.
    task_id : str
        Id of the benchmark's task on the hub.
    source_url : str
        Address where the run is published; "" if it is not published.
    force : bool
        Whether existing files are replaced.

    Returns
    -------
    list of (Path, str)
        Path of each file, and a note about missing answers ("" if no answer is missing).

    Raises
    ------
    ConfigError
        If no benchmark of the run comes from the hub, or a file exists.

    Notes
    -----
    The value of a result is the accuracy in per cent. The accuracy covers the parsed answers to
    questions that were asked as published. The format requires a dataset of the hub, so a benchmark
    that was read from a local file is left out.
    """
    manifest = Manifest.load(run_dir)
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for name, row in answered(run_dir, audit_of(run_dir).schema):
        if name == row["benchmark"]:
            tallies[row["model"], name].add(row)
    settings = map(manifest.config.get, ("benchmark", "control_benchmark"))
    benchmarks = [benchmark for benchmark in settings if isinstance(benchmark, dict)]
    # A benchmark has a path only if it was read from a file, so benchmarks without a path come from
    # the hub.
    known = {b["name"]: b["hub"] for b in benchmarks if b.get("hub") and not b.get("path")}
    written = []
    for (model, benchmark), tally in sorted(tallies.items()):
        if benchmark not in known or not tally.parsed:
            continue
        facts, sample = manifest.models.get(model, {}), manifest.benchmark.get(benchmark, {})
        n, revision = sample.get("n"), sample.get("revision")
        notes = f"benchmark-audit {manifest.audit}, run {manifest.fingerprint[:12]}; "
        notes += f"{n} of {sample.get('n_total', n)} items; "
        notes += f"right {tally.right} of {tally.parsed} parsed answers"
        entry = {
            "dataset": {"id": known[benchmark], "task_id": task_id, "revision": revision},
            "value": round(100 * tally.right / tally.parsed, 2),
            "date": (manifest.ended or manifest.started)[:10],
        }
        if source_url:
            entry["source"] = {"url": source_url, "name": "benchmark-audit"}
        entry["notes"] = f"{notes}; {tally.note}" if tally.note else notes
        path = out / safe_name(hub_model(model, facts)) / ".eval_results" / f"{benchmark}.yaml"
        check_new(path, out, force=force)
        make_folder(path.parent)
        write_file(path, yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).encode())
        written.append((path, tally.note))
    if not written:
        names = ", ".join(sorted({name for _, name in tallies})) or "none"
        raise ConfigError(
            f"{run_dir} has no parsed answers to a benchmark of the hub, asked as published (its "
            f"benchmarks: {names}). Expected a benchmark from the hub. Example: benchmark=arc_easy"
        )
    return written
