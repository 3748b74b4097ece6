"""Run the audits of a suite one after the other on one engine, and write the suite's report.

Each audit has a separate run directory. If the same command is given again, it resumes the suite: a
finished audit is skipped, and an unfinished audit continues.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from audit.benchmarks.load import open_benchmark
from audit.config.audits import audit_of, part_of
from audit.config.base import known_models, load_model_config
from audit.config.resolve import revision_of
from audit.core.errors import AuditError, ConfigError
from audit.core.exits import FAILED, lines, one_line, refused, tell
from audit.core.guarded_files import read_json
from audit.core.json_types import plain
from audit.engines.config import ModelConfig
from audit.engines.weights import resolve_weights
from audit.governance.formats import as_text
from audit.governance.ruling import rule_run
from audit.judging.together import parts_of
from audit.registry import finish
from audit.runtime.first_checks import check_files
from audit.runtime.summary import larger, more_questions, out_of_reach
from audit.shards.complete import cell_rows, count_rows
from audit.shards.files import write_file
from audit.shards.manifest import MANIFEST, NOT_RESULTS, Manifest, flatten
from audit.shards.panel import SUITE, write_panel
from audit.suite.commands import Step, check_version, key_of, model_name, windows_of
from audit.suite.judge import judge_suite
from audit.suite.schema import Suite
from audit.variants.arrow import find_library

# Options that change neither the stored rows nor the verdict, so they may be changed when a suite
# is resumed.
_VERDICT = ("verdict", "statistics", "references", "allow_convicted")
_DECIDES_NOTHING = [key for key in NOT_RESULTS if not key.startswith(_VERDICT)]


def run_dir_of(suite: Suite, words: Mapping[str, Sequence[str]]) -> Path:
    """Return the directory of a suite.

    The directory depends only on the suite and the arguments. So the same command resumes the
    suite.

    Parameters
    ----------
    suite : Suite
        The suite.
    words : mapping
        Arguments of each audit, by the name of the audit.

    Returns
    -------
    Path
        The directory, below outputs/.
    """
    decides = _text({"suite": asdict(suite), "words": _deciding(words)})
    digest = hashlib.sha256(decides.encode()).hexdigest()
    return Path("outputs") / f"suite-{suite.audit_suite_id}-{digest[:10]}"


def check_suite(suite: Suite, plan: Sequence[Step]) -> dict[str, Any]:
    """Check that the installed model and data have the versions that the suite pins.

    Parameters
    ----------
    suite : Suite
        The suite.
    plan : sequence of Step
        Audits of the suite.

    Returns
    -------
    dict
        Name of the model, with the entries "stated", "found" and "claimed" of `check_version`.

    Raises
    ------
    AuditError
        If a version differs from the pinned one.
    """
    name = model_name(suite)
    model = plan[0].config.model[name]
    version = check_version(suite, model, _installed_revision)
    for step in plan:
        check_files(step.config)
        if step.audit == "perturb":
            _check_library(suite, step)
    stated = suite.dataset_config.dataset_version
    if stated is not None and stated.startswith("sha256:"):
        _check_items(suite, plan, stated)
    return {"name": name, **version}


def _installed_revision(model: ModelConfig) -> str:
    return str(revision_of(model, resolve_weights(model)))


def _check_items(suite: Suite, plan: Sequence[Step], stated: str) -> None:
    """Raise ConfigError if the hash of the benchmark's items differs from the stated version."""
    for step in plan:
        config = step.config
        if config.benchmark.name == suite.dataset_config.benchmark_name:
            revision = open_benchmark(config.benchmark, seed=config.seed).revision
            if not revision.startswith(stated):
                raise ConfigError(
                    f"dataset_config.dataset_version is {stated}. Expected {revision}, the version "
                    "of the items that are read."
                )
            return


def run_suite(suite: Suite, plan: Sequence[Step], run_dir: Path, typed: Sequence[str] = ()) -> int:
    """Run or resume all audits, write the report and the verdict, and print the decision.

    Parameters
    ----------
    suite : Suite
        The suite.
    plan : sequence of Step
        Audits of the suite.
    run_dir : Path
        Directory of the suite.
    typed : sequence of str
        Name of the suite and the arguments that the user typed after it. The command that is
        suggested next repeats them.

    Returns
    -------
    int
        Exit code of the decision.

    Raises
    ------
    AuditError
        If the suite cannot be run.
    """
    model = check_suite(suite, plan)
    dirs = {step.audit: Path(str(step.config.run_dir)) for step in plan}
    state = _open(suite, plan, run_dir, model)
    write_panel(run_dir, list(dirs.values()))
    registry, people = plan[0].config.registry, suite.governance.notify_on_failure
    finish.check(registry, people)
    try:
        failed = _run_all(plan, dirs, state, run_dir / SUITE)
    except Exception as error:
        finish.failed(registry, run_dir, f"{type(error).__name__}: {error}", to=people)
        raise
    if failed:
        problem = (
            f"{', '.join(failed)} did not finish, so there is no decision. Run the same command "
            "again to continue."
        )
        refused(problem, lines)
        finish.failed(registry, run_dir, problem, to=people)
        return FAILED
    tell("\nreport of all audits")
    # The suite that each run stores does not name the model, so that runs of two versions of a
    # model can be compared.
    without_model = asdict(suite)
    del without_model["model_config"]
    report_of = {}
    for audit, folder in dirs.items():
        write_file(folder / SUITE, _text(without_model).encode())
        report_of[audit] = folder / "report"
    paths = judge_suite(run_dir, run_dir / "report", report_of)
    ruling = rule_run(run_dir)
    print(f"report   {paths.html}\nverdict  {paths.verdict}", flush=True)
    finish.finished(registry, run_dir)
    print(as_text(ruling), end="")
    if ruling.problem:
        print(lines(ruling.problem), file=sys.stderr)
    parts = []
    for audit, part in parts_of(paths.content):
        parts.append((part, plain(asdict(Manifest.load(dirs[audit])))))
    if short := out_of_reach(parts):
        print(f"note: {one_line(short)}")
    if (more := more_questions(parts)) is not None:
        command = larger(("audit", "suite", *typed), "dataset_config.sample_size", more)
        print(f"next: {one_line(command)}", flush=True)
    return ruling.exit_code


def _run_all(
    plan: Sequence[Step], dirs: Mapping[str, Path], state: dict[str, Any], path: Path
) -> list[str]:
    """Run each audit, and return the names of the audits that did not finish.

    `state` is the content of suite.json at `path`. The fingerprint of each finished audit is added
    to `state` and to the file.
    """
    from audit.runtime.keep import keep_engines

    failed = []
    with keep_engines():
        for number, step in enumerate(plan, 1):
            tell(f"\n{number} of {len(plan)}  {step.audit}  {' '.join(step.words)}")
            if finished(dirs[step.audit], state["finished"].get(step.audit)):
                tell(f"finished already: {dirs[step.audit]}")
                continue
            try:
                code = getattr(part_of(step.audit, "__main__"), step.audit)(step.config)
            except AuditError as error:
                refused(error, lines)
                code = FAILED
            if code:
                failed.append(step.audit)
                continue
            state["finished"][step.audit] = Manifest.load(dirs[step.audit]).fingerprint
            write_file(path, _text(state).encode())
    return failed


def finished(run_dir: Path, fingerprint: str | None) -> bool:
    """Return whether a run is recorded as finished and all of its rows are stored.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    fingerprint : str or None
        Fingerprint that the suite recorded; None if it recorded none.

    Returns
    -------
    bool
        True if the run is finished and complete. False also if the directory contains a run with
        another fingerprint; the audit's command then checks whether the run belongs to the suite.
    """
    if fingerprint is None or not (run_dir / MANIFEST).is_file():
        return False
    manifest = Manifest.load(run_dir)
    if (manifest.fingerprint, manifest.status) != (fingerprint, "finished"):
        return False
    try:
        counts = count_rows(run_dir, audit_of(run_dir).schema)
        return all(rows.complete for rows in cell_rows(run_dir, counts))
    except AuditError:
        return False  # The audit's command, which runs next, reports or repairs the error.


def _check_library(suite: Suite, step: Step) -> None:
    """Raise ConfigError if the library of variants does not have the properties that the suite
    states."""
    pin, variants = suite.perturbation_config, getattr(step.config, "variants", None)
    header = find_library(variants or step.config.benchmark.name).header
    stated = (pin.min_semantic_distance, pin.max_semantic_distance)
    low, high = stated if header.window in windows_of(suite) else header.window
    reworded_by = header.paraphraser.name if header.paraphraser else None
    if (
        reworded_by in known_models()
        and load_model_config(str(reworded_by)).path == pin.paraphrase_model
    ):
        reworded_by = pin.paraphrase_model  # The suite may name the model by its hub id.
    for name, value, of_library in (
        ("min_semantic_distance", pin.min_semantic_distance, low),
        ("max_semantic_distance", pin.max_semantic_distance, high),
        ("perturbation_strategy", pin.perturbation_strategy, header.strategy),
        ("paraphrase_model", pin.paraphrase_model, reworded_by),
    ):
        if value is not None and value != of_library:
            raise ConfigError(
                f"perturbation_config.{name} is {value}, but library {header.name} has "
                f"{of_library}. Expected equal values: change the field, or name another library "
                f"(audit variants list). Example: audits: {{perturb: [variants=HASH]}}."
            )


def _open(
    suite: Suite, plan: Sequence[Step], run_dir: Path, model: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of suite.json.

    The file is written if it is missing. Otherwise it must belong to this suite.

    Raises ConfigError if the directory belongs to another suite, and ShardError if the file cannot
    be written.
    """
    path = run_dir / SUITE
    words = _deciding({step.audit: step.words for step in plan})
    now = json.loads(_text({"suite": asdict(suite), "words": words, "model": dict(model)}))
    if not path.exists():
        run_dir.mkdir(parents=True, exist_ok=True)
        state = {**now, "finished": {}}
        write_file(path, _text(state).encode())
        return state
    try:
        before = read_json(path)
        done = {**before.pop("finished")}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}). Restore the file, or choose another directory with "
            "run_dir=."
        ) from error
    if before != now:
        old, new = flatten(before), flatten(now)
        differ = sorted(key for key in {*old, *new} if old.get(key, ...) != new.get(key, ...))
        raise ConfigError(
            f"{run_dir} contains another suite, or an earlier version of this suite. The "
            f"suites differ in {', '.join(differ)}. Choose another directory, such as "
            f"run_dir={run_dir}_2, or undo the changes."
        )
    return {**now, "finished": done}


def _deciding(words: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the arguments of each audit that can change the stored rows or the verdict."""
    deciding: dict[str, list[str]] = {}
    for audit, given in words.items():
        deciding[audit] = []
        for word in given:
            key = key_of(word)
            if not any(fnmatchcase(key, skip) for skip in _DECIDES_NOTHING):
                deciding[audit].append(word)
    return deciding


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
