"""Export a run as Inspect logs: `audit export inspect RUN_DIR [--out FOLDER]`.

The export writes one `.eval` file for each model, benchmark and condition: a zip of JSON files
(https://inspect.aisi.org.uk/eval-logs.html, log version 2). The format is documented, so the
package inspect_ai is not needed to write it. A question becomes a sample, and a replicate becomes
an epoch.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from audit.config.audits import audit_of
from audit.core.errors import ConfigError
from audit.core.json_types import plain
from audit.shards.complete import cell_rows, count_rows
from audit.shards.files import make_folder, whole_file
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns

# Folder of the logs in a run directory. When a retention rule removes the answers of a run, it also
# removes this folder.
INSPECT = "inspect"
# Every entry of the zip gets this fixed time, so that two exports of a run have equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Largest number of files that are open at once. Each model, benchmark and condition has its own
# file.
_MAX_FILES = 500
_STOPS = {"stop": "stop", "scored": "stop", "length": "max_tokens"}
# These columns are not metadata, since Inspect's samples have fields for them.
_SHOWN = {
    "model",
    "benchmark",
    "question_id",
    "prompt",
    "response",
    "options",
    "error",
}
_SCORER = "audit"


@dataclass
class Tally:
    """Count the answers of one model, benchmark and condition."""

    right: int = 0
    parsed: int = 0
    unparsed: int = 0
    errors: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row to the counts."""
        if row["error"] is not None:
            self.errors += 1
        elif not row["parsed"]:
            self.unparsed += 1
        else:
            self.parsed += 1
            self.right += bool(row["correct"])

    @property
    def counts(self) -> dict[str, str]:
        """Return a mapping from the name of each count to the count as text."""
        names = ("right", "parsed", "unparsed", "errors")
        return {name: str(getattr(self, name)) for name in names}

    @property
    def note(self) -> str:
        """Return a note that states how many answers have no outcome; "" if every answer has an
        outcome.
        """
        lost = self.unparsed + self.errors
        return f"{lost} of {lost + self.parsed} answers have `error` and no outcome" if lost else ""


@dataclass
class _Log:
    """Hold one log file that is being written.

    `notes` is a temporary file that contains the sample summaries of all logs. `summaries` holds
    the positions of this log's summaries in `notes`. At the end they are copied into the log.
    """

    target: Path
    archive: zipfile.ZipFile
    spec: dict[str, Any]
    notes: IO[bytes]
    summaries: array[int] = field(default_factory=lambda: array("Q"))
    size: int = 0  # size of the summaries in bytes
    tally: Tally = field(default_factory=Tally)
    epochs: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, row: Mapping[str, Any], level: str) -> None:
        """Write the sample of a row. `level` is the name of the audit's level column."""
        sample = sample_of(row, level)
        _entry(self.archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
        names = ("id", "epoch", "input", "choices", "target", "metadata", "scores", "model_usage")
        summary = {name: sample[name] for name in names}
        summary["completed"] = True
        summary["message_count"] = len(sample["messages"])
        summary["input"] = summary["input"][:1000]
        metadata = sample["metadata"].items()
        summary["metadata"] = {
            name: value for name, value in metadata if not isinstance(value, list)
        }
        if "error" in sample:
            summary["error"] = sample["error"]["message"]
        line = _json(summary) + b"\n"
        self.summaries.append(self.notes.tell())
        self.size += self.notes.write(line)
        # A text whose likelihood was measured has neither a score nor an error.
        if sample["scores"] or "error" in sample:
            self.tally.add(row)
        self.epochs = max(self.epochs, int(sample["epoch"]))
        for usage in sample["model_usage"].values():
            self.tokens = [
                self.tokens[0] + usage["input_tokens"],
                self.tokens[1] + usage["output_tokens"],
            ]

    def write_summaries(self) -> None:
        """Write the summaries of this log as a JSON list."""
        entry = _named("summaries.json")
        # zipfile must know in advance whether the size of an entry exceeds 4 GB, because a larger
        # entry has another format.
        entry.file_size = self.size + 1
        with self.archive.open(entry, "w") as out:
            out.write(b"[")
            for k, start in enumerate(self.summaries):
                self.notes.seek(start)
                out.write((b"," if k else b"") + self.notes.readline()[:-1])
            out.write(b"]")


def export_inspect(run_dir: Path, out: Path) -> list[tuple[Path, str]]:
    """Write the logs of a run.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    out : Path
        Folder to write into.

    Returns
    -------
    list of (Path, str)
        Path of each file, and a note if answers are missing ("" if none is missing).

    Raises
    ------
    ConfigError
        If the folder is not a run, or if the run has too many settings.
    ShardError
        If a shard cannot be read, or if a file cannot be written.
    """
    manifest, schema = Manifest.load(run_dir), audit_of(run_dir).schema
    rows = {(r.model, r.benchmark): r for r in cell_rows(run_dir, count_rows(run_dir, schema))}
    make_folder(out)
    stopped = "" if manifest.status == "finished" else manifest.status
    logs: dict[tuple[str, ...], _Log] = {}
    written = []
    with ExitStack() as stack:
        notes = stack.enter_context(tempfile.TemporaryFile(dir=out))
        for row in asked_rows(run_dir, schema):
            key = (row["model"], row["benchmark"], row["arm"], str(row[schema.level]))
            if key not in logs:
                if len(logs) == _MAX_FILES:
                    raise ConfigError(
                        f"{run_dir} has more than {_MAX_FILES} combinations of model, benchmark "
                        "and condition. Expected at most that many per export."
                    )
                logs[key] = _open(stack, out, spec_of(manifest, key, schema.level), notes)
            logs[key].add(row, schema.level)
        for (model, benchmark, *_), log in sorted(logs.items()):
            problem = rows[model, benchmark].watermark or stopped
            _close(log, manifest, "cancelled" if problem else "success")
            written.append((log.target, problem))
    return written


def sample_of(row: Mapping[str, Any], level: str) -> dict[str, Any]:
    """Return the Inspect sample of an answered question.

    Parameters
    ----------
    row : mapping
        A row of a shard: one answer of a model with its metadata.
    level : str
        Name of the audit's level column.

    Returns
    -------
    dict
        The sample. A failed row has an error and no score. An unparsed reply has the score "N" (no
        answer), which does not mean wrong.
    """
    options = list(row["options"] or ())
    score: dict[str, Any] = {}
    # Texts whose likelihood was measured have no answer.
    if row["error"] is None and row["reading"] != "text":
        value, explanation = "N", "no answer could be read"
        if row["parsed"]:
            value = "C" if row["correct"] else "I"
            explanation = f"read by {row['reading']} ({row['answer_form']})"
        score = {
            _SCORER: {
                "value": value,
                "answer": answer_of(row),
                "explanation": explanation,
                "history": [],
            }
        }
    prompt, response, usage = row["prompt"] or "", row["response"] or "", usage_of(row)
    question = {"id": "prompt", "role": "user", "content": prompt}
    reply = {"id": "reply", "role": "assistant", "content": response, "source": "generate"}
    stop = _STOPS.get(str(row["finish_reason"]), "unknown")
    chosen = [] if row["error"] is not None else [{"message": reply, "stop_reason": stop}]
    metadata = {name: plain(value) for name, value in row.items() if name not in _SHOWN}
    metadata["question_id"] = row["question_id"]
    metadata["setting"] = f"{row['arm']}, {level} {row[level]}"
    sample = {
        "id": sample_id(row["question_id"]),
        "epoch": int(row["replicate"]) + 1,
        "input": prompt,
        "choices": options or None,
        "target": gold_of(row),
        "messages": [question] if row["error"] is not None else [question, reply],
        "output": {
            "model": row["model"],
            "choices": chosen,
            "completion": response,
            "usage": usage,
        },
        "scores": score,
        "metadata": metadata,
        "store": {},
        "events": [],
        "model_usage": {row["model"]: usage},
        "attachments": {},
    }
    if row["error"] is not None:
        sample["error"] = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
    return sample


def spec_of(manifest: Any, key: Sequence[str], level: str) -> dict[str, Any]:
    """Return the part of an Inspect log that describes the task, the data and the model.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the run.
    key : sequence of str
        Names of the log's model, benchmark, arm (condition) and level.
    level : str
        Name of the audit's level column.

    Returns
    -------
    dict
        The description.
    """
    model, benchmark, arm, number = key
    facts = manifest.models.get(model, {})
    task = f"{manifest.audit} {benchmark} {arm} {level} {number}"
    short = hashlib.sha256("\0".join((manifest.fingerprint, *key)).encode()).hexdigest()[:22]
    return {
        "eval_id": short,
        "run_id": manifest.fingerprint[:22],
        "created": manifest.started,
        "task": task,
        "task_id": short,
        "task_version": manifest.schema_version,
        "task_args": {"arm": arm, level: int(number)},
        "dataset": {"name": benchmark, "samples": manifest.benchmark.get(benchmark, {}).get("n")},
        "model": model,
        "model_args": {"revision": facts.get("revision"), "worker": facts.get("worker", model)},
        "model_generate_config": {},
        "config": {},
        "packages": {name: str(version) for name, version in manifest.packages.items()},
        "metadata": {"run": manifest.fingerprint, "audit": manifest.audit},
    }


def sample_id(question_id: str) -> str:
    """Convert the id of a question to a valid name of an entry in the zip.

    Parameters
    ----------
    question_id : str
        Id of the question.

    Returns
    -------
    str
        A name that cannot lead out of the folder of samples.
    """
    plain_name = re.fullmatch(r"[\w .:@+-]+(/[\w .:@+-]+)*", question_id, re.ASCII)
    safe = plain_name and not {".", ".."} & set(question_id.split("/"))
    return question_id if safe else quote(question_id, safe="").replace(".", "%2E")


def asked_rows(run_dir: Path, schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of all questions that were asked in a run, in the order of the shards.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    schema : RowSchema
        Schema of the audit's rows.

    Yields
    ------
    dict
        A row of a shard: one answer of a model with its metadata.

    Raises
    ------
    ConfigError
        If a judge read the replies after the run.
    """
    # If a judge reads the replies after the run, every reply in the shards is unparsed. The judge's
    # votes are stored in other files.
    if (run_dir / "judgements.arrow").exists():
        raise ConfigError(
            f"{run_dir} was read by a judge after the run, and exports do not contain the judge's "
            "votes. Expected a run without a judge. The votes are in the tables of the run's "
            "report."
        )
    for batch in iter_columns(run_dir, schema, schema.columns.names):
        for row in batch.to_pylist():
            if row.get("asked") is not False:
                yield row


def _open(stack: ExitStack, out: Path, spec: dict[str, Any], notes: IO[bytes]) -> _Log:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{spec['model']}-{spec['task']}")[:120].strip("-")
    when = re.sub(r"[:.]", "-", spec["created"] or "")
    target = out / f"{when}_{stem}_{spec['eval_id']}.eval"
    archive = stack.enter_context(
        zipfile.ZipFile(stack.enter_context(whole_file(target)), "w", zipfile.ZIP_DEFLATED)
    )
    _entry(archive, "_journal/start.json", {"version": 2, "eval": spec, "plan": _PLAN})
    return _Log(target, archive, spec, notes)


_PLAN = {"name": "plan", "steps": [], "config": {}}


def _close(log: _Log, manifest: Any, status: str) -> None:
    """Write the last part of a log, which contains the results.

    The accuracy covers only the parsed replies, as in the report. The log also states the number of
    unparsed and of failed replies.
    """
    spec = log.spec | {"config": {"epochs": log.epochs}}
    n, tally = len(log.summaries), log.tally
    figures: dict[str, float] = {"accuracy": tally.right / tally.parsed} if tally.parsed else {}
    figures |= {"unread": tally.unparsed, "errors": tally.errors}
    metrics = {
        name: {"name": name, "value": value, "params": {}} for name, value in figures.items()
    }
    scorer = {"name": _SCORER, "scorer": _SCORER, "params": {}, "metrics": metrics}
    scored = [scorer] if tally.parsed + tally.unparsed else []
    total = n
    if status != "success":
        total = max(n, int(spec["dataset"]["samples"] or 0) * log.epochs)
    usage = {
        "input_tokens": log.tokens[0],
        "output_tokens": log.tokens[1],
        "total_tokens": sum(log.tokens),
    }
    times = {"started_at": manifest.started or "", "completed_at": manifest.ended or ""}
    header = {
        "version": 2,
        "status": status,
        "eval": spec,
        "plan": _PLAN,
        "results": {
            "total_samples": total,
            "completed_samples": n - tally.errors,
            "scores": scored,
        },
        "stats": times | {"model_usage": {spec["model"]: usage}},
        "tags": [] if status == "success" else ["incomplete"],
    }
    log.write_summaries()
    _entry(log.archive, "header.json", header)
    log.archive.close()


def _entry(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    archive.writestr(_named(name), _json(content))


def _named(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    return info


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def usage_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return a row's token counts in Inspect's format. An unknown count is 0."""
    usage = {
        "input_tokens": int(row["prompt_tokens"] or 0),
        "output_tokens": int(row["completion_tokens"] or 0),
    }
    return {**usage, "total_tokens": sum(usage.values())}


def answer_of(row: Mapping[str, Any]) -> str | None:
    """Return the parsed answer of a row.

    Parameters
    ----------
    row : mapping
        A row of a shard: one answer of a model with its metadata.

    Returns
    -------
    str or None
        The letter or the number; None if the reply is unparsed.
    """
    if row["answer"] is not None:
        return letter(row["answer"])
    return None if row["answer_number"] is None else number_text(row["answer_number"])


def gold_of(row: Mapping[str, Any]) -> str:
    """Return the right answer of a row.

    Parameters
    ----------
    row : mapping
        A row of a shard: one answer of a model with its metadata.

    Returns
    -------
    str
        The letter or the number; "" if the row states no right answer.
    """
    if row["options"] and row["gold"] >= 0:
        return letter(row["gold"])
    return "" if row["target"] is None else number_text(row["target"])


def letter(index: int) -> str:
    """Return the letter of the option with this index, or the index as text if there is no such
    letter.
    """
    return chr(ord("A") + index) if 0 <= index < 26 else str(index)


def number_text(value: float) -> str:
    """Format a number; a whole number is written without a fraction."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
