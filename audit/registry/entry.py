"""Read the facts to register about a run from its directory. Nothing is written.

A run can be registered only if it is finished and has a complete verdict on its shards. Any other
run is refused with the error message of `audit gate`.
"""

import hashlib
import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml

from audit.config.audits import part_of
from audit.core.errors import ConfigError
from audit.core.exits import FAILED, one_line
from audit.core.guarded_files import nearest, read_text
from audit.core.guarded_yaml import parse_yaml
from audit.governance.archive import SUITES
from audit.governance.reviews import MAX_SUITE, at
from audit.governance.ruling import home_of, rule_run
from audit.governance.side_files import revisions_of
from audit.judging import document
from audit.judging.decision import Ruling, read_verdict
from audit.judging.document import Library
from audit.judging.instrument import Indicator
from audit.shards.files import file_sha256
from audit.shards.manifest import MANIFEST, Manifest, deciding
from audit.shards.panel import verdict_path

Row = Mapping[str, Any]  # one row, from JSON or from a table
# Keys of the configuration that are not part of the hash of the design: they have another hash, or
# do not affect the design.
_ELSEWHERE = {
    "model",
    "benchmark",
    "control_benchmark",
    "protocol",
    "protocols",
    "answering",
    "worker",
    "variants",
    "control_variants",
    "reading",
    "seed",
    "n",
    "store",
    "edits_sha256",
}
NAMES = {
    "audit": "the audit",
    "schema": "the version of its rows",
    "benchmark": "the benchmark's revision",
    "questions": "the questions drawn",
    "prompts": "the prompts",
    "library": "the library of variants",
    "design": "the settings asked",
    "reading": "how answers are read",
    "references": "the reference models",
    "control": "the held-out items",
}


@dataclass(frozen=True)
class Cell:
    """Hold the result of one model on one benchmark, or on a part of a benchmark.

    Attributes
    ----------
    model, benchmark, context : str
        The model, the benchmark, and the name of the separately judged part; "" for the whole
        benchmark.
    model_revision, benchmark_revision : str
        The revisions of the model and of the benchmark.
    n : int
        Number of questions.
    verdict, decision, headline : str
        The verdict, the decision that follows from the verdict, and a sentence that states the
        verdict.
    sound : bool
        False if the verdict is withheld because a check of the measurement failed.
    comparable : dict of str to str
        Maps each key of NAMES to a hash. Two results are compared only if these hashes are equal.
    library : str or None
        Name of the library of variants.
    ids : tuple of str or None
        Ids of the questions; None if the sample is too large for its ids to be in the manifest.
    indicators : tuple of Indicator
        The metrics that the registry compares between runs.
    """

    model: str
    benchmark: str
    context: str
    model_revision: str
    benchmark_revision: str
    n: int
    verdict: str
    decision: str
    headline: str
    sound: bool
    comparable: dict[str, str]
    library: str | None
    ids: tuple[str, ...] | None
    indicators: tuple[Indicator, ...]


@dataclass(frozen=True)
class Entry:
    """Hold the facts about a run that are registered.

    Attributes
    ----------
    key : str
        Content key of the run.
    audit, fingerprint : str
        The name of the audit, and the hash of the settings that determine the rows of the run.
    answers_sha256, verdict_sha256, manifest_sha256 : str
        Hashes of the answers, the verdict and the manifest.
    suite, suite_sha256 : str or None
        Id and hash of the suite; None without a suite.
    started, ended : str
        Start and end of the run, as texts in the format of `reviews.at`.
    run_dir : str
        Absolute path of the run directory.
    run_by : tuple of str
        The person who started each attempt.
    retention_days, rotate_every : int or None, str or None
        Rules of the suite: days after which results are removed, and the period after which samples
        are replaced.
    notify : tuple of str
        Mail addresses that the suite notifies.
    ruling : Ruling
        Decision of `audit gate` on the run.
    cells : tuple of Cell
        The results, one for each model and benchmark.
    """

    key: str
    audit: str
    fingerprint: str
    answers_sha256: str
    verdict_sha256: str
    manifest_sha256: str
    suite: str
    suite_sha256: str | None
    started: str
    ended: str
    run_dir: str
    run_by: tuple[str, ...]
    retention_days: int | None
    rotate_every: str | None
    notify: tuple[str, ...]
    ruling: Ruling
    cells: tuple[Cell, ...]


def digest(value: Any) -> str:
    """Return the sha256 hash of a value that can be written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def content_key(manifest: Manifest, verdict_sha256: str, suite_sha256: str | None) -> str:
    """Return the key that identifies a result. Equal results have equal keys.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the run.
    verdict_sha256, suite_sha256 : str, str or None
        Hashes of verdict and suite.

    Returns
    -------
    str
        Hash over the questions, the model's weights, all answers, the verdict and the suite.
    """
    weights = revisions_of(manifest.models)
    question = {"audit": manifest.audit, "fingerprint": manifest.fingerprint, "models": weights}
    result = {"answers": answers_sha256(manifest), "verdict": verdict_sha256, "suite": suite_sha256}
    return digest(question | result)


def answers_sha256(manifest: Manifest) -> str:
    """Return one hash over the hashes of all shards. Runs with equal answers have equal hashes."""
    return digest(sorted(shard["sha256"] for shard in manifest.shards))


def key_of(run_dir: Path) -> str:
    """Return the content key of the run in a directory.

    The hashes of the shards are taken from the manifest.
    """
    return content_key(
        Manifest.load(run_dir), file_sha256(verdict_path(run_dir)), _suite(run_dir)[1]
    )


def read_entry(run_dir: Path) -> Entry:
    """Read the facts about a run that are registered.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.

    Returns
    -------
    Entry
        The facts about the run.

    Raises
    ------
    ConfigError
        If the run is not finished, or if its verdict was computed from other shards.
    """
    run_dir = home_of(run_dir)
    if not (run_dir / MANIFEST).is_file():
        raise ConfigError(
            f"{run_dir} is not a run directory: it has no {MANIFEST} (looked from {Path.cwd()})."
            f"{nearest(run_dir)} Expected the folder of a finished run; for a panel, the folders "
            "of its runs. Example: outputs/my_run"
        )
    ruling = rule_run(run_dir)
    if ruling.exit_code == FAILED:
        missing = "; ".join(f"{r.watermark}: {r.model} on {r.benchmark}" for r in ruling.incomplete)
        raise ConfigError(ruling.problem or f"{run_dir}: {missing or 'it has no complete verdict'}")
    manifest = Manifest.load(run_dir)
    path = verdict_path(run_dir)
    verdict = read_verdict(path)
    verdict_sha256 = file_sha256(path)
    suite, suite_sha256, governance = _suite(run_dir)
    cells = []
    for cell, ruled in zip(verdict.cells, ruling.cells, strict=True):
        cells.append(_cell(manifest, verdict.library, cell, str(ruled.decision)))
    return Entry(
        key=content_key(manifest, verdict_sha256, suite_sha256),
        audit=manifest.audit,
        fingerprint=manifest.fingerprint,
        answers_sha256=answers_sha256(manifest),
        verdict_sha256=verdict_sha256,
        manifest_sha256=file_sha256(run_dir / MANIFEST),
        suite=suite,
        suite_sha256=suite_sha256,
        started=_time(manifest.started, run_dir),
        ended=_time(manifest.ended, run_dir),
        run_dir=str(run_dir.resolve()),
        run_by=tuple(manifest.run_by),
        retention_days=governance.get("result_retention_days"),
        rotate_every=governance.get("rotate_every"),
        notify=tuple(governance.get("notify_on_failure") or ()),
        ruling=ruling,
        cells=tuple(cells),
    )


def comparable(
    manifest: Manifest, model: str, benchmark: str, library: Library | None
) -> dict[str, str]:
    """Return hashes that decide whether the results of two runs can be compared.

    Results can be compared if all hashes of the two runs are equal.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the run.
    model, benchmark : str
        Names of the model and of the benchmark.
    library : Library or None
        The library of variants that the verdict uses.

    Returns
    -------
    dict of str to str
        Maps each key of NAMES to a hash. The model's revision, the thresholds and the suite's name
        are not part of a hash, since they may differ between compared results.
    """
    facts = manifest.benchmark.get(benchmark, {})
    benchmarks = sorted(manifest.benchmark.items())
    others = []
    for name, b in benchmarks:
        if name != benchmark:
            others.append((name, b.get("revision"), b.get("ids_sha256")))
    return {
        "audit": manifest.audit,
        "schema": manifest.schema_version,
        "benchmark": str(facts.get("revision", "")),
        "questions": str(facts.get("ids_sha256", "")),
        "prompts": str(manifest.prompt_hashes.get(model, "")),
        "library": library.sha256 if library else "",
        "design": digest(design(manifest, model)),
        "reading": str(manifest.models.get(model, {}).get("reading", "")),
        "control": digest([*others, *filter(None, [manifest.config.get("control_variants")])])
        if others
        else "",
    }


def design(manifest: Manifest, model: str) -> dict[str, Any]:
    """Return the design of a run: the audit's configuration, the calls and the worker's settings.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the run.
    model : str
        Name of the model.

    Returns
    -------
    dict
        The design as JSON content.
    """
    facts = manifest.models.get(model, {})
    configured = manifest.config.get("model", {}).get(model, {})
    other = facts.get("worker", model) != model
    options = {}
    for k, v in deciding(manifest.config).items():
        if k.split(".")[0] not in _ELSEWHERE:
            options[k] = v
    calls = {}
    for name, v in configured.items():
        if isinstance(v, Mapping) and "max_tokens" in v:
            calls[name] = v
    return {
        "settings": manifest.settings,
        "own": options,
        "calls": calls,
        "options": configured.get("option_normalisation"),
        "worker": [facts.get("worker"), facts.get("worker_revision")] if other else None,
    }


def _cell(manifest: Manifest, library: Library | None, cell: document.Cell, decision: str) -> Cell:
    model, benchmark = cell.model, cell.benchmark
    tracked = part_of(manifest.audit, "vocabulary").INSTRUMENT.tracked(cell)
    against: set[str] = set()
    for indicator in tracked:
        against.update(indicator.against)
    references = [(name, manifest.models.get(name, {}).get("revision")) for name in sorted(against)]
    facts = manifest.benchmark.get(benchmark, {})
    ids = manifest.sampled_ids.get(benchmark)
    return Cell(
        model=model,
        benchmark=benchmark,
        context=cell.context or "",
        model_revision=str(manifest.models.get(model, {}).get("revision") or ""),
        benchmark_revision=str(facts.get("revision", "")),
        n=int(facts.get("n", 0)),
        verdict=cell.verdict,
        decision=decision,
        headline=one_line(cell.headline),
        sound=cell.sound,
        comparable=comparable(manifest, model, benchmark, library)
        | {"references": digest(references) if references else ""},
        library=library.name if library else None,
        ids=None if ids is None else tuple(ids),
        indicators=tracked,
    )


def _suite(run_dir: Path) -> tuple[str, str | None, Row]:
    """Return (id, sha256, governance settings) of the suite to which a run belongs.

    The result is ("", None, {}) if the run belongs to no suite.
    """
    path = next((run_dir / name for name in SUITES if (run_dir / name).is_file()), None)
    if path is None:
        return "", None, {}
    try:
        suite = parse_yaml(read_text(path, MAX_SUITE))  # JSON is also YAML.
        governance = dict(suite.get("governance") or {})
        name = suite.get("audit_suite_id") or suite.get("name") or path.stem
        if not isinstance(name, str | int | float | date):
            raise TypeError("audit_suite_id is not a name")
        name = str(name)
    except (
        OSError,
        yaml.YAMLError,
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise ConfigError(
            f"{path} is not a suite ({error}). Restore the file, since the run is registered under "
            "this suite."
        ) from error
    for key, (holds, expected) in _GOVERNANCE.items():
        if governance.get(key) is not None and not holds(governance[key]):
            value = reprlib.repr(governance[key])
            raise ConfigError(f"{key} in the suite of {run_dir} is {value}. Expected {expected}.")
    return name, file_sha256(path), governance


def _time(value: str | None, run_dir: Path) -> str:
    """Convert a time in the manifest to the time format of the registry."""
    try:
        when = datetime.fromisoformat(value or "")
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"A time in {run_dir / MANIFEST} is {value!r}. Expected a time as ISO 8601."
        ) from error
    return at(when)


def _addresses(people: Any) -> bool:
    if not isinstance(people, list):
        return False
    return all(isinstance(address, str) and "@" in address for address in people)


_GOVERNANCE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "result_retention_days": (
        lambda days: type(days) is int and days >= 1,
        "whole days, such as 365",
    ),
    "rotate_every": (lambda period: period == "quarter", "quarter"),
    "notify_on_failure": (_addresses, "a list of mail addresses"),
}
