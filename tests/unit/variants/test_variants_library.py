"""The artefact: its hash, its file, finding, selecting, comparing, merging, reviewing; and the
command line."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_here import variants as main
from scipy.stats import binom
from variant_helpers import CAPITAL, EGGS, FAR, GOOD, NEAR, OTHER, QUESTIONS, make_library

from audit.core.errors import ConfigError, DataError, LibraryError
from audit.perturb.audit import SCHEMA
from audit.perturb.report import reviewed_since
from audit.shards.manifest import Manifest
from audit.shards.shard_file import column_sums
from audit.statistics.chance import upper_limit
from audit.variants import arrow
from audit.variants.arrow import METADATA, find_library, read_library, save_library, to_table
from audit.variants.combine import diff, judge_by_run, merge
from audit.variants.record import Library, ModelRef, State
from audit.variants.review_file import apply_review, draw_review, read_review, write_review
from audit.variants.select import check_library, select_variants


def test_hash_is_of_content_not_of_order_or_framing(tmp_path: Path) -> None:
    models = {"nli": ModelRef("n", "1"), "judge": ModelRef("j", "2")}
    library = make_library(NEAR, GOOD, FAR, OTHER, **models, parents=("a",), panel=("m",))
    rows = list(library.variants)
    random.Random(1).shuffle(rows)
    assert Library(library.header, tuple(rows)).sha256 == library.sha256
    path = arrow.write_library(library, tmp_path / "a" / "variants.arrow")
    table = to_table(library)
    with pa.ipc.new_file(
        tmp_path / "b.arrow", table.schema
    ) as writer:  # no compression, a batch a row, reversed
        for batch in table.take(list(reversed(range(len(rows))))).to_batches(max_chunksize=1):
            writer.write_batch(batch)
    assert path.read_bytes() != (tmp_path / "b.arrow").read_bytes()
    assert read_library(path) == read_library(tmp_path / "b.arrow") == library
    assert arrow.read_about(path)["counts"] == {"accepted": 2, "too_close": 1, "too_far": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 43},
        {"window": (0.1, 0.45)},
        {"embedder": ModelRef("scripted", "sha256:1")},
        {"licence": ""},
    ],
)
def test_whatever_decides_a_library_is_in_its_hash(change: dict[str, object]) -> None:
    assert make_library(GOOD, **change).sha256 != make_library(GOOD).sha256
    assert make_library(OTHER).sha256 != make_library(GOOD).sha256


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    library = make_library(GOOD, OTHER)
    table = to_table(library)
    spoilt = table.set_column(
        5, table.schema.field(5), pa.array(["Which city is in Italy?", OTHER])
    )
    with pa.ipc.new_file(tmp_path / "x.arrow", spoilt.schema) as writer:
        writer.write_table(spoilt)
    with pytest.raises(
        LibraryError, match=f"was changed: .* Expected library {library.sha256[:12]}"
    ):
        read_library(tmp_path / "x.arrow")


def test_files_that_are_no_library(tmp_path: Path) -> None:
    path = tmp_path / "variants.arrow"
    path.write_bytes(b"nothing")
    with pytest.raises(LibraryError, match="is not a variant library"):
        read_library(path)
    with pa.ipc.new_file(path, pa.schema([("a", pa.int8())])):
        pass
    with pytest.raises(LibraryError, match="its metadata has no header"):
        read_library(path)
    table = to_table(make_library(GOOD))
    for changed, message in (
        ({"schema_version": 99}, "its version is 99"),
        ({"colour": 1}, "colour"),
    ):
        about = json.loads(table.schema.metadata[METADATA])
        about["header"] |= changed
        with pa.ipc.new_file(path, table.schema.with_metadata({METADATA: json.dumps(about)})):
            pass
        with pytest.raises(LibraryError, match=message):
            read_library(path)


def test_find_by_name_hash_and_path(tmp_path: Path) -> None:
    first, second = make_library(GOOD), make_library(OTHER, name="second")
    path = save_library(first, tmp_path)
    save_library(second, tmp_path)
    assert path == tmp_path / f"quiz-file-{first.sha256[:12]}" / "variants.arrow"
    for reference in ("quiz-file", first.sha256, first.sha256[:6], str(path), str(path.parent)):
        assert find_library(reference, tmp_path) == first
    save_library(make_library(FAR, GOOD), tmp_path)
    with pytest.raises(LibraryError, match="'quiz-file' means 2 libraries"):
        find_library("quiz-file", tmp_path)
    with pytest.raises(
        LibraryError, match=r"Unknown variant library: 'secnd'\. Did you mean 'second'"
    ):
        find_library("secnd", tmp_path)
    with pytest.raises(LibraryError, match=r"gone\.arrow is not a variant library"):
        find_library(str(tmp_path / "gone.arrow"), tmp_path)
    assert {e.name for e in arrow.list_libraries(tmp_path)} >= {"quiz-file", "second"}


def test_check_library() -> None:
    library = make_library(GOOD)
    check_library(library, "quiz", QUESTIONS)
    check_library(
        library, "quiz", [replace(EGGS, id="q/77")]
    )  # a question that it does not know is not an error
    with pytest.raises(LibraryError, match="rewords quiz, not mmlu"):
        check_library(library, "mmlu", QUESTIONS)
    with pytest.raises(
        LibraryError, match=r"another revision of quiz .*1 questions differ, such as q/1"
    ):
        check_library(library, "quiz", [replace(CAPITAL, gold=0), EGGS])


def test_select_variants() -> None:
    library = make_library(NEAR, GOOD, OTHER)
    chosen = select_variants(library, QUESTIONS)
    assert {id_: [v.text for v in vs] for id_, vs in chosen.variants.items()} == {
        "q/1": [GOOD, OTHER]
    }
    assert chosen.without == ("q/2",) and chosen.short == ()
    assert [v.text for v in select_variants(library, QUESTIONS, 1).variants["q/1"]] == [GOOD]
    selection = select_variants(library, QUESTIONS, 3)
    assert selection.short == ("q/1",) and len(selection.variants) == 1
    assert re.findall(r"\d+", selection.sentence) == ["1", "2", "1", "1"]  # with two, none and one
    with pytest.raises(
        LibraryError, match="fewer than 3 accepted variants for every one of the 2 questions"
    ):
        select_variants(library, QUESTIONS, 3, short="drop")
    with pytest.raises(LibraryError, match="has no accepted variants"):
        select_variants(make_library(NEAR), QUESTIONS)
    with pytest.raises(ConfigError, match="num_variants: 0"):
        select_variants(library, QUESTIONS, 0)
    with pytest.raises(ConfigError, match="Unknown value of short"):
        select_variants(library, QUESTIONS, 1, short="skip")


def test_diff() -> None:
    difference = diff(make_library(GOOD, FAR), make_library(OTHER, FAR, GOOD.upper(), seed=7))
    # GOOD in capitals is too long for the scripted embedder: the same words, another state.
    assert [v.text for v in difference.only_second] == [OTHER] and difference.only_first == ()
    assert [(a.state.value, b.state.value) for a, b in difference.changed] == [
        ("accepted", "not_embedded")
    ]
    assert difference.header == {"seed": (42, 7)}


def test_merge() -> None:
    first, second = (
        make_library(GOOD, NEAR),
        make_library(OTHER, GOOD, OTHER, licence="MIT", seed=7),
    )
    both = merge(first, second, "both")
    assert [(v.number, v.state.value, v.same_as) for v in both.variants] == [
        (1, "accepted", None),
        (2, "too_close", None),
        (3, "accepted", None),
        (4, "duplicate", "q/1#1"),
        (5, "duplicate", "q/1#3"),
    ]
    assert (
        both.header.parents == (first.sha256, second.sha256) and both.header.licence == "CC0; MIT"
    )
    with pytest.raises(LibraryError, match="not judged alike"):
        merge(first, make_library(OTHER, window=(0.1, 0.2)), "both")


def test_the_upper_limit_is_clopper_pearson() -> None:
    assert upper_limit(0, 150) == pytest.approx(1 - 0.05 ** (1 / 150))  # closed form at zero: 2.0 %
    assert upper_limit(5, 5) == 1.0
    for broken, n in (
        (1, 20),
        (7, 60),
    ):  # the definition: at the bound, that few or fewer have probability 5 %
        assert binom.cdf(broken, n, upper_limit(broken, n)) == pytest.approx(0.05, abs=1e-9)


def test_review_by_file(tmp_path: Path) -> None:
    library, path = make_library(NEAR, GOOD, OTHER), tmp_path / "review.jsonl"
    write_review(library, path, n=2, seed=5)
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert head["library"] == library.sha256 and [line["id"] for line in lines] == [
        "q/1#2",
        "q/1#3",
    ]
    assert lines[0]["key"] == "B. Paris" and lines[0]["finding"] == ""
    path.write_text(path.read_text().replace('"read_by": ""', '"read_by": "person"'))
    with pytest.raises(DataError, match="missing on 2 of 2"):
        read_review(library, path, reviewer="ann")
    findings = [{**lines[0], "finding": "ok"}, {**lines[1], "finding": "Unsure"}]
    path.write_text("\n".join(map(json.dumps, [head, *findings])))
    with pytest.raises(DataError, match="is '', and"):  # nobody says who read
        read_review(library, path, reviewer="ann")
    path.write_text("\n".join(map(json.dumps, [{**head, "read_by": "model"}, *findings])))
    by_model = read_review(library, path, reviewer="a model")
    assert by_model.header.review is None and by_model.variants[2].state == State.REVIEWED_BROKEN
    head["read_by"] = "Person"
    path.write_text("\n".join(map(json.dumps, [head, *findings])))
    with pytest.raises(DataError, match="--reviewer is ''"):
        read_review(library, path, reviewer="")
    reviewed = read_review(library, path, reviewer="ann")
    assert (reviewed.header.review.n, reviewed.header.review.broken) == (
        2,
        1,
    )  # doubt counts as broken
    assert reviewed.header.review.upper_95 == pytest.approx(upper_limit(1, 2), abs=1e-6)
    assert [v.state for v in reviewed.variants] == [
        State.TOO_CLOSE,
        State.ACCEPTED,
        State.REVIEWED_BROKEN,
    ]
    assert reviewed.header.parents == (library.sha256,) and reviewed.sha256 != library.sha256
    with pytest.raises(LibraryError, match="is a review of library"):
        read_review(reviewed, path, reviewer="ann")
    path.write_text("\n".join(map(json.dumps, [head, findings[0]])))  # a line was deleted
    with pytest.raises(DataError, match="missing on 1 of 2 sampled variants"):
        read_review(library, path, reviewer="ann")
    path.write_text(
        "\n".join(
            map(json.dumps, [head, findings[0], {**findings[1], "variant": "an easier text"}])
        )
    )
    with pytest.raises(
        DataError, match="another text of q/1#3"
    ):  # what was read is not what would be judged
        read_review(library, path, reviewer="ann")
    path.write_text("not json")
    with pytest.raises(DataError, match="is not a review file"):
        read_review(library, path, reviewer="ann")


def test_review_findings_are_checked() -> None:
    library = make_library(GOOD, OTHER)
    with pytest.raises(DataError, match="Unknown finding 'fine'"):
        apply_review(library, ["q/1#1"], {"q/1#1": "fine"}, seed=0, reviewer="")
    with pytest.raises(ConfigError, match=r"n is 3\. Expected 1 to 2"):
        draw_review(library, 3, np.random.default_rng(0))


def test_a_run_of_three_references_is_a_panel(tmp_path: Path) -> None:
    library = make_library(NEAR, GOOD, OTHER, FAR)
    run = tmp_path / "run"
    (run / "shards").mkdir(parents=True)

    def save_run(**changes: object) -> None:
        facts = {"variants": library.sha256}
        models = {name: {} for name in ("tested", *"abcd")}
        given = {
            "audit": "perturb",
            "status": "finished",
            "models": models,
            "analysis": {"judged": ["tested"]},
        }
        Manifest("f", facts, **{**given, **changes}).save(run)

    def row(
        model: str, variant: int, correct: bool | None, replicate: int = 0
    ) -> dict[str, object]:
        name = f"q/1#{variant}" if variant else None
        return {
            "model": model,
            "benchmark": "quiz",
            "question_id": "q/1",
            "arm": "variant" if variant else "original",
            "variant": variant,
            "replicate": replicate,
            "asked": True,
            "variant_id": name,
            "parsed": correct is not None,
            "correct": correct,
        }

    def found_where(d_original: bool | None) -> Library:
        rows = [row("tested", k, k == 1) for k in range(5)]  # not of the panel
        for model in "abcd":
            original = d_original if model == "d" else True
            rows += [
                row(model, 0, True),
                row(model, 0, original, 1),
                row(model, 1, False),
                row(model, 2, False),
            ]
            rows += [row(model, 3, model == "b"), row(model, 4, None if model == "c" else False)]
        table = pa.Table.from_pylist(rows, schema=SCHEMA.columns)
        with pa.ipc.new_file(str(run / "shards" / "part-0.arrow"), table.schema) as sink:
            for batch in table.to_batches():
                sink.write_batch(batch, custom_metadata=column_sums(batch))
        return judge_by_run(library, run)

    save_run()
    result = found_where(
        None
    )  # d's unreadable answer counts for nothing; of the last two models are left: too few
    assert [(v.panel, v.state.value) for v in result.variants] == [
        ("suspect", "too_close"),
        ("suspect", "suspect"),
        ("passed", "accepted"),
        ("", "too_far"),
    ]
    assert result.header.panel == tuple("abcd") and result.header.parents == (library.sha256,)
    assert [v.panel for v in found_where(False).variants] == [
        "passed"
    ] * 4  # d had the original wrong once
    save_library(library, tmp_path)
    assert main(["--folder", str(tmp_path), "panel", library.sha256, str(run)]) == 0
    for changes, message in (
        ({"status": "running"}, "Expected a finished run"),
        ({"analysis": {"judged": ["tested", "a", "b"]}}, "2 reference models. Expected 3 or more"),
    ):
        save_run(**changes)
        with pytest.raises(ConfigError, match=message):
            judge_by_run(library, run)
    save_run()
    with pytest.raises(LibraryError, match="used library"):
        judge_by_run(make_library(GOOD), run)


def test_export(tmp_path: Path) -> None:
    library = make_library(NEAR, GOOD)
    assert arrow.export_library(library, tmp_path / "x.jsonl") == 1
    row = json.loads((tmp_path / "x.jsonl").read_text())
    assert (row["text"], row["accepted"], row["library"]) == (GOOD, True, library.sha256)
    assert arrow.export_library(library, tmp_path / "x.parquet") == 1
    table = pq.read_table(tmp_path / "x.parquet")
    assert table["state"].to_pylist() == ["accepted"] and METADATA in table.schema.metadata
    with pytest.raises(ConfigError, match=r"Expected .jsonl or .parquet"):
        arrow.export_library(library, tmp_path / "x.csv")


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = make_library(NEAR, GOOD, OTHER), make_library(OTHER, FAR, name="second")
    save_library(first, tmp_path)
    save_library(second, tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["--folder", str(tmp_path), *arguments])
        out, err = capsys.readouterr()
        return code, out + err

    assert f"{first.sha256[:12]}  quiz-file  quiz  2 of 3 accepted" in run("list")[1]
    code, text = run("show", "quiz-file")
    assert code == 0 and '"licence": "CC0"' in text
    assert GOOD in run("show", "quiz-file", "--state", "accepted")[1]
    assert NEAR in run("show", "quiz-file", "--question", "q/1")[1]
    assert "0 only" in run("diff", "quiz-file", "second")[1]
    code, text = run("merge", "quiz-file", "second", "--name", "merged")
    assert code == 0 and find_library("merged", tmp_path).header.parents == (
        first.sha256,
        second.sha256,
    )
    assert run("export", "quiz-file", str(tmp_path / "x.jsonl"))[1].startswith("2 variants written")
    review = tmp_path / "r.jsonl"
    assert run("review", "quiz-file", "--out", str(review), "--n", "2")[0] == 0
    empty = review.read_text().replace('"read_by": ""', '"read_by": "person"')
    review.write_text(empty.replace('"finding": ""', '"finding": "ok"'))
    code, text = run("review", "quiz-file", "--read", str(review), "--reviewer", "ann")
    assert code == 0 and "0 of 2 " in text and "77.6 %" in text  # 1 - .05 ** (1/2)
    for wrong in (
        ("show", "nothing"),
        ("show", "second", "--state", "fine"),
        ("show", "second", "--question", "q/9"),
    ):
        code, text = run(*wrong)
        assert code == 1 and text.startswith("error: Unknown")


def test_a_reviewed_library_holds_what_was_asked_and_another_does_not() -> None:
    original = make_library(GOOD, OTHER)
    ids = [v.id for v in original.accepted]
    reviewed = apply_review(original, ids, {ids[0]: "broken", ids[1]: "ok"}, seed=1, reviewer="R")
    assert reviewed.sha256 != original.sha256 and reviewed_since(original, reviewed) is reviewed
    assert reviewed_since(reviewed, reviewed) is reviewed
    changed = Library(
        reviewed.header, (replace(reviewed.variants[0], text="another"), *reviewed.variants[1:])
    )
    for other in (changed, make_library(GOOD), make_library(GOOD, OTHER, licence="other")):
        with pytest.raises(DataError, match="in more than the findings of a review"):
            reviewed_since(original, other)


def test_what_a_model_wrote_holds_nothing_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "Which\x1b]0;owned\x07\x1b[2J city\x9b31m\nis it?\u202e"
    plain = make_library(GOOD, licence=f"CC0 {evil}")
    hostile = Library(
        plain.header, tuple(replace(variant, text=evil, error=evil) for variant in plain.variants)
    )
    save_library(hostile, tmp_path)
    other = make_library(OTHER)
    save_library(other, tmp_path)
    first, second = hostile.sha256, other.sha256
    for words in (
        ("show", first),
        ("show", first, "--state", "accepted"),
        ("diff", first, second),
        ("list",),
    ):
        assert main(["--folder", str(tmp_path), *words]) == 0
        shown = capsys.readouterr().out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown), words
        assert (
            words[0] == "list"
            or "\N{REPLACEMENT CHARACTER}[2J city" in shown
            or "\\u001b[2J city" in shown
        )
