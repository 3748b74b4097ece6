"""What a run does to its directory before Ray starts and after its last row: nothing is asked
here."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_here import SMALL
from outcome_tables import Outcome, outcomes_to_table
from synthetic import synthetic_outcomes

from audit.config.command_line import compose_command
from audit.config.resolve import ResolvedRun, resolve_run
from audit.core.errors import ConfigError, ShardError
from audit.runtime.loading import find_runs
from audit.runtime.progress import Display
from audit.runtime.run import Start, _record_failure, run_audit
from audit.shards.attempt import start_attempt
from audit.shards.manifest import Manifest, RunDir, open_run_dir, package_versions
from audit.shards.questions import QUESTIONS, write_questions
from audit.shards.write import write_shard
from audit.sweep.audit import SWEEP
from audit.sweep.config import SweepConfig, from_hydra

N = 8


def resolve(run_dir: Path, *words: str, model: str = "scripted") -> ResolvedRun:
    arguments = (f"model={model}", f"run_dir={run_dir}", *SMALL, f"n={N}", "r=1", *words)
    return resolve_run(SWEEP, from_hydra(compose_command("sweep", arguments, SweepConfig)))


def rows_of(resolved: ResolvedRun, model: str) -> list[Outcome]:
    """One row of each question under each setting."""
    ids = dict(zip((f"q{k}" for k in range(N)), resolved.samples[0].sample.ids, strict=True))
    made = synthetic_outcomes(
        N, (1,), rng=np.random.default_rng(1), model=model, benchmark="elementary"
    )
    names = dict(zip(sorted({o.question_id for o in made}), ids.values(), strict=True))
    settings = {(s.arm, s.level, s.replicate) for s in resolved.design.settings}
    return [replace(o, question_id=names[o.question_id]) for o in made if o.key[3:] in settings]


def open_run(resolved: ResolvedRun) -> RunDir:
    facts = {name: resolved.facts(name) for name in resolved.config.model}
    run = open_run_dir(resolved.path, SWEEP.schema, resolved.identity, resolved.plain, facts, {})
    write_questions(run.path, (q for s in resolved.samples for q in s.questions()))
    return run


def store(run: RunDir, rows: list[Outcome]) -> None:
    write_shard(run.path, outcomes_to_table(rows), SWEEP.schema, attempt=run.attempt)


def finish(resolved: ResolvedRun, run: RunDir) -> None:
    Start(resolved, run, Display(quiet=True)).finish()


# --- the end
# ----------------------------------------------------------------------------------------------------------


def test_a_run_is_never_called_finished_before_it_is_complete(tmp_path: Path) -> None:
    """Whoever kills the driver after this, or refuses its next write, leaves what the manifest said
    here."""
    resolved = resolve(tmp_path / "run")
    with open_run(resolved) as run:
        *most, last = rows_of(resolved, "scripted")
        store(run, most)
        with pytest.raises(
            ShardError,
            match=f"has {len(most)} rows, and {len(most) + 1} were expected. Missing rows: 1",
        ):
            finish(resolved, run)
        assert (
            Manifest.load(run.path).status == "failed" and len(Manifest.load(run.path).shards) == 1
        )
        store(run, [last])
        finish(resolved, run)
        assert (
            Manifest.load(run.path).status == "finished"
            and len(Manifest.load(run.path).shards) == 2
        )


def test_the_end_of_a_superseded_driver_is_not_the_runs(tmp_path: Path) -> None:
    """Neither its failure nor its files: the manifest and what is half written are those of the
    later driver."""
    resolved = resolve(tmp_path / "run")
    with open_run(resolved) as run:
        store(run, rows_of(resolved, "scripted"))
    half = resolved.path / "shards" / ".of-the-later.arrow.tmp"

    class TakenOver(Display):
        """Another driver starts while this one runs, as it may on a file system without locks."""

        def begin(self, *given: Any) -> None:
            super().begin(*given)
            start_attempt(resolved.path)
            half.touch()

    with pytest.raises(ShardError, match="superseded") as caught:
        run_audit(resolved, {}, TakenOver(quiet=True))
    assert Manifest.load(resolved.path).status == "running" and half.exists()
    assert not getattr(caught.value, "__notes__", [])  # that it was superseded is said once
    assert not _record_failure(run, caught.value)  # so that nobody is told of a failure
    with open_run(resolved) as later:
        assert (
            _record_failure(later, caught.value) and Manifest.load(resolved.path).status == "failed"
        )


@pytest.mark.parametrize(
    ("raised", "status"), [(KeyboardInterrupt(), "stopped"), (RuntimeError(), "failed")]
)
def test_a_run_that_a_person_stopped_before_its_first_row_has_not_failed(
    tmp_path: Path, raised: BaseException, status: str
) -> None:
    class Ended(Display):
        def begin(self, *given: Any) -> None:
            raise raised

    with pytest.raises(type(raised)):
        run_audit(resolve(tmp_path / "run"), {}, Ended(quiet=True))
    (entry,) = find_runs(tmp_path)
    assert (entry.status, entry.found) == (status, 0)


@pytest.mark.parametrize(
    ("stopped", "status"), [({}, "failed"), ({"scripted": {"code": "canary"}}, "stopped")]
)
def test_a_run_whose_models_the_program_stopped_has_not_failed(
    tmp_path: Path, stopped: dict[str, Any], status: str
) -> None:
    resolved = resolve(tmp_path / "run")
    with open_run(resolved) as run:
        start = Start(resolved, run, Display(quiet=True))
        start.result.failed["scripted"] = "its answers are unparsed"
        start.result.stopped |= stopped
        start.finish()
    assert (run.manifest.status, run.manifest.models_stopped) == (status, stopped)


# --- what lies there at a start
# ---------------------------------------------------------------------------------------


def other_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"What", b"Whom", 1))


@pytest.mark.parametrize(
    "harm", [other_text, lambda path: path.write_bytes(path.read_bytes()[:99])]
)
def test_the_questions_are_those_of_the_benchmark_at_every_start(tmp_path: Path, harm: Any) -> None:
    """The rest of a run would be asked them, whatever became of the file since."""
    resolved = resolve(tmp_path / "run")
    with open_run(resolved) as run:
        store(run, rows_of(resolved, "scripted"))
    path = run.path / QUESTIONS
    whole = path.read_bytes()
    harm(path)
    assert path.read_bytes() != whole
    assert restart(resolved).rows == len(rows_of(resolved, "scripted"))
    assert path.read_bytes() == whole


def test_a_shard_of_another_run_is_set_aside_though_its_keys_are_those_of_this_one(
    tmp_path: Path,
) -> None:
    """Two runs that differ in a setting have shards of the same names."""
    mine, others = (
        resolve(tmp_path / "run"),
        resolve(tmp_path / "other", "model.scripted.worker.max_tokens=7"),
    )
    assert mine.identity != others.identity
    for resolved in (mine, others):
        with open_run(resolved) as run:
            table = outcomes_to_table(rows_of(resolved, "scripted"))
            schema = SWEEP.schema.of_run(resolved.identity)
            write_shard(run.path, table.cast(schema.columns), schema, attempt=run.attempt)
    (shard,), (foreign,) = (
        list((resolved.path / "shards").iterdir()) for resolved in (mine, others)
    )
    assert shard.name == foreign.name
    assert restart(mine).rows == len(rows_of(mine, "scripted"))
    shutil.copy(foreign, shard)
    with pytest.raises(AssertionError, match="goes on to Ray"):  # its rows are asked
        restart(mine)
    assert [
        path.name.removesuffix(path.suffix) for path in (mine.path / "quarantine").iterdir()
    ] == [shard.name]


# --- what the rows were made with
# -------------------------------------------------------------------------------------


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """A folder that is resolved as weights; nothing loads it."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    return str(tmp_path / "weights")


def earlier(run: RunDir, **versions: str) -> dict[str, str]:
    """The run as it was made with these packages and stopped."""
    return run.update(status="failed", packages={**package_versions(), **versions}).packages


class BeforeRay(Display):
    """Ends a run where it would start Ray: nothing refused it."""

    def stage(self, text: str) -> None:
        assert "Ray" not in text, "goes on to Ray"


def restart(resolved: ResolvedRun) -> Any:
    return run_audit(resolved, {}, BeforeRay(quiet=True))


def test_rows_of_two_versions_of_an_engine_are_not_mixed(tmp_path: Path, weights: str) -> None:
    resolved = resolve(tmp_path / "run", f"model.smollm2_135m.path={weights}", model="smollm2_135m")
    with open_run(resolved) as run:
        rows = rows_of(resolved, "smollm2_135m")
        store(run, rows[:-1])
        made_with = earlier(run, torch="1.0", scipy="1.0")
    with pytest.raises(
        ConfigError,
        match=r"has rows made with torch==1\.0, but this start has torch==.*run_dir=.*_2.*pip install",
    ):
        restart(resolved)
    refused = Manifest.load(resolved.path)
    assert (
        (refused.status, refused.packages)
        == ("failed", {**package_versions(), "torch": "1.0"})
        != made_with
    )
    with open_run(
        resolved
    ) as run:  # nothing is left to ask: the report of what is there may be built anew
        store(run, rows[-1:])
    assert restart(resolved).rows == len(rows)
    finished = Manifest.load(resolved.path)
    assert (
        finished.status == "finished"
        and finished.packages["torch"] == "1.0" != package_versions()["torch"]
    )


def test_failed_rows_are_not_asked_again_of_another_version(tmp_path: Path, weights: str) -> None:
    words = (f"model.smollm2_135m.path={weights}", "store.retry_errors=true")
    resolved = resolve(tmp_path / "run", *words, model="smollm2_135m")
    with open_run(resolved) as run:
        *rows, last = rows_of(resolved, "smollm2_135m")
        store(
            run, [*rows, replace(last, error="no memory", answer=None, correct=None, parsed=False)]
        )
        before = [path.read_bytes() for path in (run.path / "shards").iterdir()]
        earlier(run, torch="1.0")
    with pytest.raises(ConfigError, match="has rows made with torch==1"):
        restart(resolved)
    assert [path.read_bytes() for path in (resolved.path / "shards").iterdir()] == before


def test_a_run_without_such_rows_takes_what_is_installed(tmp_path: Path, weights: str) -> None:
    """Two starts that are stopped before Ray is: one of a model whose rows torch did not make, one
    without rows."""
    for model, word in (
        ("scripted", "seed=1"),
        ("smollm2_135m", f"model.smollm2_135m.path={weights}"),
    ):
        resolved = resolve(tmp_path / model, word, model=model)
        with open_run(resolved) as run:
            if model == "scripted":
                store(run, rows_of(resolved, model)[:-1])
            earlier(run, torch="1.0")
        with pytest.raises(AssertionError, match="goes on to Ray"):
            restart(resolved)
        assert Manifest.load(resolved.path).packages == package_versions()
