import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import digests_of_keys, finished_run, iter_outcomes, outcomes_to_table
from shard_rows import failed, names, new_run, row, write

from audit.core.errors import DataError, ShardError
from audit.core.records import Design, Part, Setting
from audit.shards.complete import cell_rows, count_rows, run_cost
from audit.shards.read import drop_rows, iter_columns, load_cells, open_dataset, scan_run
from audit.shards.schema import row_schema
from audit.shards.shard_file import CorruptShardError, column_sums, read_shard
from audit.statistics.paired import State
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, str]:
    return new_run(tmp_path / "run")


@pytest.fixture(scope="module", params=["arrow", "parquet"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bytes]:
    run, attempt = new_run(tmp_path_factory.mktemp(request.param) / "run")
    path = write(
        run,
        attempt,
        *(row(q, response=os.urandom(50).hex()) for q in range(40)),
        format=request.param,
    ).path
    return path, path.read_bytes()


def test_scan_finds_every_row_and_only_them(run: tuple[Path, str]) -> None:
    rows = [row(q, r) for q in range(4) for r in (1, 2)]
    infos = [
        write(*run, *rows[:5]),
        write(*run, *rows[5:], format="parquet"),
        write(*run, failed(9)),
    ]
    scan = scan_run(run[0], SCHEMA)
    assert {s.path: s for s in scan.shards} == {i.path: i for i in infos}
    assert (scan.rows, len(scan.done), scan.duplicates, scan.corrupt) == (9, 9, 0, {})
    digests = digests_of_keys([r.key for r in [*rows, row(9), row(10), row(0, 3)]])
    assert scan.done.contains(digests).tolist() == [True] * 9 + [False] * 2
    assert (
        scan.error_keys.contains(digests_of_keys([row(9).key])).all() and len(scan.error_keys) == 1
    )


def test_an_empty_run_scans_and_is_not_read(run: tuple[Path, str], tmp_path: Path) -> None:
    for path in (run[0], tmp_path / "nowhere"):
        scan = scan_run(path, SCHEMA)
        assert (scan.rows, len(scan.done), scan.shards) == (0, 0, ())
        assert not scan.done.contains(digests_of_keys([row().key])).any()
    for read in (load_cells, open_dataset, lambda path, _: list(iter_outcomes(path))):
        with pytest.raises(ShardError, match=r"has no shards. Expected the directory of a run"):
            read(run[0], SCHEMA)


@settings(max_examples=50)
@given(data=st.data())
def test_every_truncation_is_found_set_aside_and_redone(
    whole: tuple[Path, bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, content = whole
    cut = data.draw(
        st.integers(0, len(content) - 1) | st.integers(len(content) - 64, len(content) - 1)
    )
    run, attempt = new_run(tmp_path_factory.mktemp("cut") / "run")
    sound = write(run, attempt, row(99), format=path.suffix[1:])
    (run / "shards" / path.name).write_bytes(content[:cut])
    scan = scan_run(run, SCHEMA)
    (moved,) = (run / "quarantine").glob(f"{path.name}.*")
    assert [*scan.corrupt] == [path.name] and moved.stat().st_size == cut
    assert [s.path for s in scan.shards] == [sound.path] and names(run / "shards") == [
        sound.path.name
    ]
    assert len(scan.done) == 1
    assert (
        ds.dataset(
            run / "shards", format={".arrow": "ipc"}.get(path.suffix, "parquet")
        ).count_rows()
        == 1
    )


def test_no_damage_changes_what_is_read(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    """Arrow's files have no checksums of their own: one byte in ten changed a value, a few of them
    a key. A power cut can leave blocks of zeros."""
    path, content = whole
    sound, damaged = read_shard(path, SCHEMA), tmp_path / path.name
    refused = 0
    # A page's header has no checksum: one zeroed byte in its first thirty, and its column was read
    # as no rows.
    zeros = [(at, b"\0") for at in range(200)]
    blocks = [(at, bytes(n)) for n in (512, 40) for at in range(0, len(content) - n, 487)]
    flips = [
        (at, bytes([content[at] ^ bits]))
        for at in range(0, len(content), 61)
        for bits in (0xFF, 1 << at % 8)
    ]
    for at, new in [*zeros, *blocks, *flips, (len(content) - 1, bytes([content[-1] ^ 1]))]:
        damaged.write_bytes(content[:at] + new + content[at + len(new) :])
        try:
            table = read_shard(damaged, SCHEMA)
        except CorruptShardError:
            refused += 1
            continue
        assert table.equals(sound), at
    assert refused > 50


def test_files_that_are_no_shards_are_set_aside(run: tuple[Path, str]) -> None:
    sound = write(*run, row(0))
    folder = run[0] / "shards"
    (folder / "empty.arrow").touch()
    (folder / "notes.txt").write_text("hello")
    (folder / "text.arrow").write_text("hello" * 100)
    for name, table in [
        ("other.arrow", pa.table({"a": [1]})),
        ("older.arrow", outcomes_to_table([row(1)]).drop_columns(["seed"])),
        ("norows.arrow", outcomes_to_table([])),
        (
            "nokey.arrow",
            outcomes_to_table([row(1)]).set_column(0, "model", pa.array([None], pa.string())),
        ),
        ("nosums.arrow", outcomes_to_table([row(1)])),
    ]:
        with pa.ipc.new_file(folder / name, table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(
                    batch, custom_metadata=column_sums(batch) if name != "nosums.arrow" else None
                )
    scan = scan_run(run[0], SCHEMA)
    assert set(scan.corrupt) == {
        "empty.arrow",
        "notes.txt",
        "text.arrow",
        "other.arrow",
        "older.arrow",
        "norows.arrow",
        "nokey.arrow",
        "nosums.arrow",
    }
    assert names(folder) == [sound.path.name] and len(names(run[0] / "quarantine")) == 8


def test_leftover_temporary_files_are_removed_and_reading_ignores_them(
    run: tuple[Path, str],
) -> None:
    info = write(*run, row(0))
    leftover = run[0] / "shards" / f".{info.path.name}.0123.tmp"
    leftover.write_bytes(info.path.read_bytes()[:100])
    assert open_dataset(run[0], SCHEMA).count_rows() == 1
    assert leftover.exists()
    assert scan_run(run[0], SCHEMA).rows == 1 and not leftover.exists()


def test_reading_for_the_statistics_touches_nothing(run: tuple[Path, str]) -> None:
    path = write(*run, row(0)).path
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptShardError, match=r"same|again"):
        list(iter_outcomes(run[0]))


# --- rows taken out
# -------------------------------------------------------------------------------------------------


def test_error_rows_are_dropped_and_the_others_stay(run: tuple[Path, str]) -> None:
    mixed = write(*run, row(0), failed(1), row(2))
    lost = write(*run, failed(3))
    sound = write(*run, row(4))
    before = sound.path.stat().st_mtime_ns
    assert (
        drop_rows(run[0], SCHEMA, scan_run(run[0], SCHEMA).error_keys, SINGLE, attempt=run[1]) == 2
    )
    scan = scan_run(run[0], SCHEMA)
    digests = digests_of_keys([row(q).key for q in range(5)])
    assert scan.done.contains(digests).tolist() == [True, False, True, False, True]
    assert (
        not lost.path.exists() and mixed.path.exists() and sound.path.stat().st_mtime_ns == before
    )
    assert drop_rows(run[0], SCHEMA, scan.error_keys, SINGLE, attempt=run[1]) == 0


DESIGN = Design(
    (
        Part(Arm.FORWARD_FULL, (1,)),
        Part(Arm.NOISY_REWRITE, (1, 2, 3, 4)),
        Part(Arm.NOISY_REWRITE, (1, 2, 3, 4), replicate=1),
    )
)
SINGLE = Design(tuple(Part(Arm.NOISY_REWRITE, (r,)) for r in (1, 2)))


def test_a_nested_set_is_dropped_whole(run: tuple[Path, str]) -> None:
    nested = {"draws": Draws.NESTED}
    write(*run, *(row(0, r, **nested) for r in (1, 2)), failed(0, 3, **nested), row(1, 1, **nested))
    write(
        *run,
        row(0, 4, **nested),
        row(0, 1, replicate=1, **nested),
        row(0, 1, Arm.FORWARD_FULL, **nested),
    )
    assert (
        drop_rows(run[0], SCHEMA, scan_run(run[0], SCHEMA).error_keys, DESIGN, attempt=run[1]) == 4
    )
    left = {(o.question_id, o.arm, o.routers, o.replicate) for o in iter_outcomes(run[0])}
    assert left == {
        ("q1", "noisy_rewrite", 1, 0),
        ("q0", "noisy_rewrite", 1, 1),
        ("q0", "forward_full", 1, 0),
    }


# --- columns
# --------------------------------------------------------------------------------------------------------


def test_columns_come_back_in_the_order_of_the_shards(
    run: tuple[Path, str], tmp_path: Path
) -> None:
    other = new_run(tmp_path / "second")
    rows = {
        i.path.name: rows
        for rows in ([row(3), failed(1)], [row(2, 2)])
        for i in [write(*run, *rows)]
    }
    write(*other, row(7, model="n", options=("x", "y")), format="parquet")
    expected = [o for name in sorted(rows) for o in rows[name]] + [
        row(7, model="n", options=("x", "y"))
    ]
    assert list(iter_outcomes([run[0], other[0]])) == expected
    batches = list(iter_columns([run[0], other[0]], SCHEMA, ["routers", "n_options"]))
    assert batches[0].schema.names == ["routers", "n_options"]
    assert [n for batch in batches for n in batch["n_options"].to_pylist()] == [4, 4, 4, 2]


def test_cells_are_paired_by_question(run: tuple[Path, str]) -> None:
    write(*run, row(1, 1), row(0, 1), failed(1, 2))
    write(*run, row(0, 2, parsed=False, correct=None, answer=None), row(5, 1, model="n"))
    first, second = load_cells(run[0], SCHEMA)
    assert (first.model, first.question_ids, first.n_options.tolist()) == (
        "m",
        ("q0", "q1"),
        [4, 4],
    )
    assert first.row(Setting(Arm.NOISY_REWRITE, 1)).tolist() == [State.CORRECT, State.WRONG]
    assert first.row(Setting(Arm.NOISY_REWRITE, 2)).tolist() == [State.UNPARSED, State.ERROR]
    assert second.model == "n"
    with pytest.raises(DataError, match="Two rows"):
        load_cells([run[0], run[0]], SCHEMA)


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_dataset_opens_for_both_formats(run: tuple[Path, str], format: str) -> None:
    write(*run, row(0), format=format)
    assert open_dataset(run[0], SCHEMA).to_table().schema.equals(SCHEMA.columns)


def test_the_cost_is_counted_from_the_shards(run: tuple[Path, str]) -> None:
    # With nested draws r = 5 pays for three messages, as r = 2 had the first two.
    nested = [
        row(q, r, draws=Draws.NESTED, model="n", router_calls=r - reused)
        for q in range(2)
        for r, reused in ((2, 0), (5, 2))
    ]
    independent = [row(q, r, router_calls=r) for q in range(3) for r in (2, 5)]
    write(*run, *nested)
    write(*run, *independent, row(0, 0, Arm.DIRECT, router_prompt_tokens=0))
    cost = run_cost(run[0], SCHEMA)
    # 3 questions, r = 2 and 5: 6 worker calls of 10 prompt tokens, 3 x (2 + 5) router calls, 6 rows
    # x 20 tokens
    assert cost["m"]["noisy_rewrite"] == {
        "worker": {"calls": 6, "prompt_tokens": 60, "cached_tokens": 24, "completion_tokens": 6},
        "router": {
            "calls": 21,
            "prompt_tokens": 120,
            "cached_tokens": 48,
            "completion_tokens": 180,
        },
    }
    assert set(cost["m"]["direct"]) == {"worker"}
    assert cost["n"]["noisy_rewrite"]["router"]["calls"] == 2 * 5


def shard_of(path: Path, audit: str | None, version: str, **columns: pa.DataType) -> None:
    """A sound Arrow file whose header names another audit or version, or none at all."""
    metadata = None if audit is None else {"audit": audit, "version": version}
    schema = pa.schema([("model", pa.string()), *columns.items()], metadata=metadata)
    with pa.ipc.new_file(path, schema) as writer:
        writer.write_table(pa.table([["m"], *([[1]] * len(columns))], schema=schema))


@pytest.mark.parametrize(
    ("audit", "version", "words"),
    [
        (None, "", "it is of audit None"),
        ("perturb", SCHEMA.version, "it is of audit perturb"),
        (
            "sweep",
            "version 1.1",
            r"it is of audit sweep, version 1\.1, and rows of audit sweep, version 4\.1",
        ),
    ],
)
def test_rows_of_another_audit_or_version_are_refused_in_a_sentence(
    run: tuple[Path, str], audit: str | None, version: str, words: str
) -> None:
    shard_of(run[0] / "shards" / "old.arrow", audit, version, routers=pa.int16())
    for read in (load_cells, lambda path, schema: list(iter_columns(path, schema, ["model"]))):
        with pytest.raises(ShardError, match=words) as caught:
            read(run[0], SCHEMA)
        assert "\n" not in str(caught.value)
    assert "version" in scan_run(run[0], SCHEMA).corrupt["old.arrow"]


def test_other_questions_in_the_place_of_a_finished_runs_do_not_complete_it(tmp_path: Path) -> None:
    """As many rows as are asked for, of the same model and benchmark."""
    fields = {"models": {"m": {}}, "benchmark": {"b": {"n": 3}}}
    mine = finished_run(tmp_path / "mine", [row(q) for q in (0, 1, 2)], **fields)
    others = finished_run(tmp_path / "others", [row(q) for q in (1, 2, 3)], **fields)
    assert [row.complete for row in cell_rows(mine, count_rows(mine, SCHEMA))] == [True]
    (shard,), (foreign,) = (list((run / "shards").iterdir()) for run in (mine, others))
    shard.unlink()
    shutil.copy(foreign, shard.with_name("b.arrow"))
    with pytest.raises(ShardError, match="manifest lists"):
        count_rows(mine, SCHEMA)


def test_shards_of_many_batches_keep_their_order(run: tuple[Path, str]) -> None:
    rows = [replace(row(), question_id=f"q{i}") for i in range(2500)]
    info = write(*run, *rows)
    assert pa.ipc.open_file(info.path).num_record_batches == 3
    batches = list(iter_columns(run[0], SCHEMA, ["question_id"]))
    assert [id_ for batch in batches for id_ in batch[0].to_pylist()] == [
        r.question_id for r in rows
    ]
    assert read_shard(info.path, SCHEMA, ["routers", "model"]).schema.names == ["routers", "model"]
    scan = scan_run(run[0], SCHEMA)
    assert scan.done.contains(digests_of_keys([r.key for r in rows])).all() and scan.digests is None


def test_a_row_that_was_never_asked_did_not_fail() -> None:
    schema = row_schema("toy", 1, [("asked", pa.bool_(), "false: nothing was sent")])
    rows = pa.table({"error": ["no such order", None, "too long"], "asked": [False, True, True]})
    assert schema.failed(rows).tolist() == [False, False, True]
    assert SCHEMA.failed(rows).tolist() == [True, False, True]  # the sweep asks every row
