"""Run a suite's audits one after the other on one engine, each in its own directory; report and
decide.

The same command resumes: an audit that finished is not run again, one that did not is resumed by
its own command.
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
from audit.engines.weights import resolve_weights
from audit.governance.formats import as_text
from audit.governance.ruling import rule_run
from audit.judging.together import parts_of
from audit.registry import finish
from audit.runtime.summary import larger, more_questions, out_of_reach
from audit.shards.complete import cell_rows, count_rows
from audit.shards.files import write_file
from audit.shards.manifest import MANIFEST, NOT_RESULTS, Manifest, flatten
from audit.shards.panel import SUITE, write_panel
from audit.suite.commands import Step, check_version, key_of, model_name, windows_of
from audit.suite.judge import judge_suite
from audit.suite.schema import Suite
from audit.variants.arrow import find_library

# These options change neither a row nor a verdict, so they may differ between two starts of a
# suite.
_VERDICT = ("verdict", "statistics", "references", "allow_convicted")
_DECIDES_NOTHING = [key for key in NOT_RESULTS if not key.startswith(_VERDICT)]


def run_dir_of(suite: Suite, words: Mapping[str, Sequence[str]]) -> Path:
    """Return the directory of a suite, which is equal for equal suites and arguments, so that it
    resumes.

    Parameters
    ----------
    suite : Suite
        The suite.
    words : mapping
        Arguments by audit.

    Returns
    -------
    Path
        Below outputs/.
    """
    digest = hashlib.sha256(
        _text({"suite": asdict(suite), "words": _deciding(words)}).encode()
    ).hexdigest()
    return Path("outputs") / f"suite-{suite.audit_suite_id}-{digest[:10]}"


def check_suite(suite: Suite, plan: Sequence[Step]) -> dict[str, Any]:
    """Compare what the suite pins with what is installed.

    Parameters
    ----------
    suite : Suite
        The suite.
    plan : sequence of Step
        Its audits.

    Returns
    -------
    dict
        name, stated, found and claimed of the model.

    Raises
    ------
    AuditError
        If they differ.
    """
    name = model_name(suite)
    model = plan[0].config.model[name]
    version = check_version(suite, model, lambda one: str(revision_of(one, resolve_weights(one))))
    for step in plan:
        if step.audit == "perturb":
            _check_library(suite, step)
    stated = suite.dataset_config.dataset_version
    if stated is not None and stated.startswith("sha256:"):
        own = [s for s in plan if s.config.benchmark.name == suite.dataset_config.benchmark_name]
        found = (
            open_benchmark(own[0].config.benchmark, seed=own[0].config.seed).revision
            if own
            else stated
        )
        if not found.startswith(stated):
            raise ConfigError(
                f"dataset_config.dataset_version: the suite states {stated}, and here is {found}."
            )
    return {"name": name, **version}


def run_suite(suite: Suite, plan: Sequence[Step], run_dir: Path, typed: Sequence[str] = ()) -> int:
    """Run (or resume) all audits, write report and verdict, and print the decision.

    Parameters
    ----------
    suite : Suite
        The suite.
    plan : sequence of Step
        Its audits.
    run_dir : Path
        Its directory.
    typed : sequence of str
        The suite's name and the arguments after it, for the next command.

    Returns
    -------
    int
        The exit code of the decision.

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
        said = f"{', '.join(failed)} did not finish: no decision. The same command goes on."
        refused(said, lines)
        finish.failed(registry, run_dir, said, to=people)
        return FAILED
    tell("\nreport of all audits")
    # Versions of a model that one suite audited are compared: what lies beside each run does not
    # name the model.
    beside = {name: value for name, value in asdict(suite).items() if name != "model_config"}
    for folder in dirs.values():
        write_file(folder / SUITE, _text(beside).encode())
    paths = judge_suite(
        run_dir, run_dir / "report", {audit: folder / "report" for audit, folder in dirs.items()}
    )
    ruling = rule_run(run_dir)
    print(f"report   {paths.html}\nverdict  {paths.verdict}", flush=True)
    finish.finished(registry, run_dir)
    print(as_text(ruling), end="")
    if ruling.problem:
        print(lines(ruling.problem), file=sys.stderr)
    parts = [
        (part, plain(asdict(Manifest.load(dirs[audit])))) for audit, part in parts_of(paths.content)
    ]
    if short := out_of_reach(parts):
        print(f"note: {one_line(short)}")
    if (more := more_questions(parts)) is not None:
        print(
            f"next: {one_line(larger(('audit', 'suite', *typed), 'dataset_config.sample_size', more))}",
            flush=True,
        )
    return ruling.exit_code


def _run_all(
    plan: Sequence[Step], dirs: Mapping[str, Path], state: dict[str, Any], path: Path
) -> list[str]:
    """Return the audits that did not finish.

    state: content of suite.json (at `path`), in which finished audits are recorded by their
    fingerprint.
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
    """Return whether a run is the one that the suite recorded as finished, with every row in its
    shards.

    Parameters
    ----------
    run_dir : Path
        The run.
    fingerprint : str or None
        As recorded; None if the suite recorded none.

    Returns
    -------
    bool
        False for any other run there; the audit's own command then checks whether it is the right
        one.
    """
    if fingerprint is None or not (run_dir / MANIFEST).is_file():
        return False
    manifest = Manifest.load(run_dir)
    if (manifest.fingerprint, manifest.status) != (fingerprint, "finished"):
        return False
    try:
        return all(
            rows.complete
            for rows in cell_rows(run_dir, count_rows(run_dir, audit_of(run_dir).schema))
        )
    except AuditError:
        return False  # its own command says why, or puts it right


def _check_library(suite: Suite, step: Step) -> None:
    asked, variants = suite.perturbation_config, getattr(step.config, "variants", None)
    header = find_library(variants or step.config.benchmark.name).header
    own = (asked.min_semantic_distance, asked.max_semantic_distance)
    low, high = own if header.window in windows_of(suite) else header.window
    reworded_by = header.paraphraser.name if header.paraphraser else None
    if (
        reworded_by in known_models()
        and load_model_config(str(reworded_by)).path == asked.paraphrase_model
    ):
        reworded_by = asked.paraphrase_model  # by its hub id
    for name, wanted, found in (
        ("min_semantic_distance", asked.min_semantic_distance, low),
        ("max_semantic_distance", asked.max_semantic_distance, high),
        ("perturbation_strategy", asked.perturbation_strategy, header.strategy),
        ("paraphrase_model", asked.paraphrase_model, reworded_by),
    ):
        if wanted is not None and wanted != found:
            raise ConfigError(
                f"perturbation_config.{name}: the suite says {wanted}, and library {header.name} has {found}. Name the "
                "library that is meant (audits: {perturb: [variants=HASH]}; audit variants list), or change the field."
            )


def _open(
    suite: Suite, plan: Sequence[Step], run_dir: Path, model: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of suite.json, written now or checked to be of this suite.

    Raises ConfigError if the directory belongs to another suite, ShardError if the disk refuses.
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
            f"{path} cannot be read ({error}). Restore it, or choose another run_dir=."
        ) from error
    if before != now:
        old, new = flatten(before), flatten(now)
        differ = sorted(key for key in {*old, *new} if old.get(key, ...) != new.get(key, ...))
        raise ConfigError(
            f"{run_dir} belongs to another suite, or to this one before it was changed: {', '.join(differ)}. Choose "
            f"another directory, such as run_dir={run_dir}_2, or go back to what it was started with."
        )
    return {**now, "finished": done}


def _deciding(words: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {
        audit: [
            one
            for one in own
            if not any(fnmatchcase(key_of(one), skip) for skip in _DECIDES_NOTHING)
        ]
        for audit, own in words.items()
    }


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
