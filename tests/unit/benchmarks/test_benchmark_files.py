"""Local files: what is read, and what is refused with file and line."""

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exams import MCQ, TWO, opened, questions, refused
from hypothesis import given
from hypothesis import strategies as st

from audit.benchmarks.answers import resolve_answer
from audit.benchmarks.arrow_files import arrow_batches
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.files import MAX_DOCUMENT, read_rows, select_files
from audit.benchmarks.load import open_benchmark
from audit.core.errors import BenchmarkError, ConfigError
from audit.core.records import Item


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- the same questions through every file type ---

ITEMS = [
    ('Which city is "the eternal one",\nas they say?', ["Paris", "Rome, Italy", "None", "NA"], 1),
    ("Wie heißt das? ☃", ["1", "2", "10"], 2),
]


def test_csv_jsonl_json_and_parquet_give_the_same_questions(tmp_path: Path) -> None:
    rows = [{"question": q, "choices": c, "answer": a} for q, c, a in ITEMS]
    write(tmp_path, "a.jsonl", lines(*rows))
    write(tmp_path, "a.json", json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["question", "choices", "answer"])
        writer.writerows([q, json.dumps(c), "ABC"[a]] for q, c, a in ITEMS)
    with (tmp_path / "columns.csv").open(
        "w", newline="", encoding="utf-8-sig"
    ) as stream:  # BOM, CRLF
        writer = csv.writer(stream)
        writer.writerow(["question", "A", "B", "C", "D", "answer"])
        writer.writerows([q, *c, *[""] * (4 - len(c)), "ABC"[a]] for q, c, a in ITEMS)
    numbered = [(f"exam/{i}", *item) for i, item in enumerate(ITEMS)]
    expected = [
        Item(id_, "exam", q, tuple(c), a, id_, tuple(range(len(c)))) for id_, q, c, a in numbered
    ]
    for name in ("a.jsonl", "a.json", "a.parquet", "a.csv", "columns.csv"):
        assert questions(tmp_path / name) == expected, name


def test_column_names_separator_id_group_and_base_are_configurable(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "key,stem,opts,gold,passage\nq7,Which?,a|b|c,3,p1\n")
    config = replace(
        MCQ,
        id_column="key",
        question_column="stem",
        choices_column="opts",
        choices_separator="|",
        answer_column="gold",
        answer_as="index",
        index_base=1,
        group_column="passage",
    )
    assert questions(path, config) == [
        Item("q7", "exam", "Which?", ("a", "b", "c"), 2, "p1", (0, 1, 2))
    ]
    path = write(tmp_path, "y.csv", "question,o1,o2,answer\nWhich?,yes,no,no\n")
    [question] = questions(path, replace(MCQ, choice_columns=["o1", "o2"]))
    assert (question.options, question.gold) == (("yes", "no"), 1)


def test_labelled_choices_are_looked_up_by_label(tmp_path: Path) -> None:
    row = {
        "question": "Which?",
        "choices": {"text": ["x", "y"], "label": ["1", "2"]},
        "answer": "2",
    }
    assert questions(write(tmp_path, "l.jsonl", lines(row)))[0].gold == 1
    rows = [
        {**row, "choices": {"A": "x", "B": "y"}, "answer": key} for key in ("B", "y")
    ]  # as MedQA has them
    items = questions(write(tmp_path, "m.jsonl", lines(*rows)))
    assert [(item.options, item.gold) for item in items] == [(("x", "y"), 1)] * 2


def test_bom_crlf_and_blank_lines_in_lines(tmp_path: Path) -> None:
    line = json.dumps(TWO).encode()
    path = write(tmp_path, "b.jsonl", b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line + b"\r\n")
    assert [q.id for q in questions(path)] == ["exam/0", "exam/1"]


def test_reading_again_starts_again(tmp_path: Path) -> None:
    benchmark = opened(write(tmp_path, "a.jsonl", lines(TWO, TWO)))
    assert list(benchmark.iter_questions()) == list(benchmark.iter_questions())
    assert benchmark.revision.startswith("sha256:")
    assert opened(write(tmp_path, "b.jsonl", lines(TWO))).revision != benchmark.revision


# --- answers ---

words = (
    st.text(alphabet="abcdefgh xyz", min_size=2, max_size=8)
    .map(str.strip)
    .filter(lambda s: len(s) > 1)
)


@given(st.lists(words, min_size=2, max_size=10, unique=True), st.data())
def test_index_letter_and_text_agree(options: list[str], data: st.DataObject) -> None:
    gold = data.draw(st.integers(0, len(options) - 1))
    letter = "ABCDEFGHIJ"[gold]
    for value in (gold, float(gold), str(gold), letter, f" {letter} ", options[gold]):
        assert resolve_answer(value, options) == gold
    assert resolve_answer(gold + 1, options, base=1) == gold
    assert resolve_answer(letter.lower(), options, form="letter") == gold
    assert resolve_answer(options[gold], options, form="text") == gold


@given(st.lists(words, min_size=2, max_size=10, unique=True), st.integers())
def test_an_index_outside_the_options_is_never_accepted(options: list[str], index: int) -> None:
    if 0 <= index < len(options):
        assert resolve_answer(index, options) == index
    else:
        with pytest.raises(BenchmarkError, match="outside"):
            resolve_answer(index, options)


def test_an_answer_with_two_meanings_is_refused_until_the_form_is_given() -> None:
    options = ["0", "4", "2", "6"]
    with pytest.raises(BenchmarkError, match=r"as text option 3, as index .*|benchmark.answer_as"):
        resolve_answer("2", ["2", "4", "0"])
    assert resolve_answer("2", options) == 2  # text and index agree
    assert resolve_answer("4", options) == 1  # beyond the indices: only a text
    assert resolve_answer(2, ["2", "4", "0"]) == 2  # a JSON number is an index
    assert resolve_answer("2", ["2", "4", "0"], form="text") == 0
    with pytest.raises(BenchmarkError, match="2 options"):
        resolve_answer("x", ["x", "x"])
    with pytest.raises(BenchmarkError, match="answer_as='number'"):
        resolve_answer("x", ["x", "y"], form="number")


# --- refusals: file and line ---


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"question": "x"', "malformed JSON"),
        ("[1, 2]", "expected a JSON object"),
        (json.dumps({**TWO, "answer": 2}), "index_base=1"),
        (json.dumps({**TWO, "answer": -1}), "outside the 2 options"),
        (json.dumps({**TWO, "answer": "C"}), "outside the 2 options"),
        (json.dumps({**TWO, "answer": None}), "gold answer is empty"),
        (json.dumps({**TWO, "answer": True}), "True is not a whole number"),
        (json.dumps({**TWO, "choices": ["3"]}), "outside|at least two"),
        (json.dumps({**TWO, "choices": ["3"], "answer": 0}), "at least two"),
        (json.dumps({**TWO, "choices": ["3", " "]}), "option 2 of 2 is empty"),
        (json.dumps({**TWO, "choices": ["3", None]}), "option 2 is None"),
        (json.dumps({**TWO, "choices": "3 or 4"}), "not a list"),
        (json.dumps({**TWO, "question": "  "}), "question is empty"),
        (json.dumps({**TWO, "question": None}), "question is null"),
        (
            json.dumps({"question": "x", "choices": ["a", "b"]}),
            "no field 'answer'; its fields: question, choices",
        ),
        (json.dumps({"question": "x", "answer": 0}), "benchmark.choices_column"),
        (
            '{"question": "a", "question": "b", "choices": ["3", "4"], "answer": 1}',
            "'question' occurs twice",
        ),
    ],
)
def test_a_bad_jsonl_row_names_file_and_line(tmp_path: Path, bad: str, words: str) -> None:
    message = refused(write(tmp_path, "exam.jsonl", lines(TWO) + "\n" + bad + "\n" + lines(TWO)))
    assert message.startswith("exam.jsonl, line 3: ")
    assert any(word in message for word in words.split("|"))


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (
            'question,A,B,answer\n"two\nlines",x,y,A\nshort,x,B\n',
            4,
            "3 fields, but the header has 4",
        ),
        ('question,A,B,answer\nq,x,y,A\n"open,x,y,A\n', 3, "malformed csv row"),
        ('question,A,B,answer\n"a"b,x,y,A\n', 2, "malformed csv row"),
        ("question,A,B,answer\nq,x,y,C\n", 2, "outside the 2 options"),
        ("question,A,A,answer\nq,x,y,A\n", 1, "repeats a column"),
        (
            '[{"question": "q", "A": "x"}, {"question": "q", "A": "x"}]',
            1,
            "so it is JSON. Expected a header.",
        ),
        ('[\n  {"question": "q"}\n]', 1, "so it is JSON"),
        ('{"question": "q"}\n{"question": "r"}\n', 1, "so it is JSON"),
        ("question,A,C,answer\nq,x,y,A\n", 2, "benchmark.choices_column"),
    ],
)
def test_a_bad_csv_row_names_file_and_line(
    tmp_path: Path, content: str, line: int, words: str
) -> None:
    message = refused(write(tmp_path, "exam.csv", content))
    assert message.startswith(f"exam.csv, line {line}: ") and words in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "exam.jsonl",
            lines(TWO).encode() + '{"question": "é"}'.encode("latin-1"),
            "exam.jsonl, line 2: byte 0xe9",
        ),
        ("exam.csv", "question,A,B,answer\né,x,y,A\n".encode("latin-1"), "0xe9"),
        ("bad.parquet", b"PAR1 no", "bad.parquet, after row 0"),
        ("exam.xlsx", b"x", ".xlsx"),
    ],
)
def test_what_is_no_text_and_no_table(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    assert words in refused(write(tmp_path, name, content))


def test_a_document_of_more_than_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", "[" + " " * 2000)
    os.truncate(path, MAX_DOCUMENT + 1)  # no bytes on the disk
    with pytest.raises(BenchmarkError, match="1,073,741,825"):
        list(read_rows(path))


@pytest.mark.parametrize("writer", [pa.ipc.new_stream, pa.ipc.new_file])
@pytest.mark.parametrize(
    ("compression", "dictionary"), [("zstd", False), ("lz4", False), ("zstd", True), (None, False)]
)
def test_a_compressed_batch_is_refused_before_it_unfolds_beyond_the_bound(
    tmp_path: Path, writer: Any, compression: str | None, dictionary: bool
) -> None:
    texts = pa.array(["y" * 10_000] * 10)
    table = pa.table({"question": texts.dictionary_encode() if dictionary else texts})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with writer(path := tmp_path / "a.arrow", table.schema, options=options) as stream:
        stream.write_table(table)
    # Ten texts with 11 offsets of four bytes; of a dictionary one text, with 2 offsets, and then
    # ten indices.
    unfolded = 10_000 + 2 * 4 if dictionary else 10 * 10_000 + 11 * 4
    bound = unfolded if compression else 1  # what is not compressed is no larger than the file
    assert [len(batch) for batch in arrow_batches(path, bound)] == [10]
    if compression:
        with pytest.raises(BenchmarkError):
            list(arrow_batches(path, unfolded - 1))


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no such file or folder.*Expected a file"):
        opened(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BenchmarkError, match="Its data files: none"):
        opened(tmp_path / "empty")
    for name, content in (("none.jsonl", "\n"), ("none.csv", ""), ("none.json", "[]")):
        with pytest.raises(BenchmarkError, match=rf"{name}: no rows \({len(content)} bytes\)"):
            _ = opened(write(tmp_path, name, content)).census
    with pytest.raises(ConfigError, match=r"benchmark\.path="):
        open_benchmark(MCQ)


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    rows = [{**TWO, "id": id_, "question": f"{n}?"} for n, id_ in enumerate(["a", "b", "c", "b"])]
    benchmark = opened(write(tmp_path, "exam.jsonl", lines(*rows)), replace(MCQ, id_column="id"))
    with pytest.raises(
        BenchmarkError, match=r"exam.jsonl, line 4: id 'b' was already used in exam.jsonl, line 2"
    ):
        _ = benchmark.census


def test_what_is_known_is_listed() -> None:
    with pytest.raises(
        ConfigError, match=r"Unknown benchmark: 'arc_esy'. Did you mean 'arc_easy'\? Known: arc_ch"
    ):
        open_benchmark(replace(MCQ, format="arc_esy"))
    with pytest.raises(ConfigError, match="no subjects"):
        open_benchmark(replace(MCQ, subjects=["x"]))
    with pytest.raises(ConfigError, match="Example: my_exam"):
        open_benchmark(replace(MCQ, name="../x"))


# --- published formats, one invalid row each ---

ARC_CHOICES = [{"text": "a", "label": "1"}, {"text": "b", "label": "2"}]
ARC = {"id": "Q", "question": {"stem": "s", "choices": ARC_CHOICES}, "answerKey": "A"}
TRUTHFUL = {"question": "q", "mc1_targets": {"a": 1, "b": 1}}
PRO = {"question_id": 1, "question": "q", "options": ["a", "b"], "answer": "A", "answer_index": 1}
BBQ = {
    "example_id": 1,
    "category": "Age",
    "context": "c",
    "question": "q",
    "label": 3,
    "ans0": "a",
    "ans1": "b",
}
BBQ |= {"ans2": "c"}


@pytest.mark.parametrize(
    ("format_", "name", "content", "words"),
    [
        ("mmlu", "law_test.csv", "Which?,a,b,c,d,E\n", "line 1: gold 'E' is outside the 4 options"),
        (
            "mmlu",
            "law_test.csv",
            "question,choice0,choice1,answer\n",
            "4 fields; expected 6 fields of the MMLU csv without header",
        ),
        (
            "arc_easy",
            "a.jsonl",
            lines(ARC),
            "line 1: gold label 'A' is not among the item's labels 1, 2",
        ),
        (
            "truthfulqa_mc1",
            "mc.json",
            json.dumps([TRUTHFUL]),
            "item 1: mc1_targets has the labels [1, 1]; expected one 1",
        ),
        (
            "mmlu_pro",
            "p.jsonl",
            lines(PRO),
            "line 1: answer is A and answer_index is 1, which are different options",
        ),
        ("bbq", "Age.jsonl", lines(BBQ), "line 1: gold index 3 is outside the 3 options"),
    ],
)
def test_a_bad_row_of_a_published_format(
    tmp_path: Path, format_: str, name: str, content: str, words: str
) -> None:
    assert words in refused(
        write(tmp_path, name, content), BenchmarkConfig(name=format_, format=format_)
    )


def test_mmlu_pro_drops_padding_only(tmp_path: Path) -> None:
    row = {
        "question_id": 5,
        "question": "q",
        "options": ["a", "N/A", "b", "N/A", "N/A"],
        "answer": "C",
    }
    config = BenchmarkConfig(name="mmlu_pro", format="mmlu_pro")
    [question] = questions(write(tmp_path, "p.jsonl", lines(row)), config)
    assert (question.id, question.options, question.gold) == ("mmlu_pro/5", ("a", "N/A", "b"), 2)


# --- which files of a folder ---


def test_select_files() -> None:
    hub = {"suffixes": (".parquet", ".jsonl"), "strict": True}
    names = [
        "README.md",
        "A/test-1-of-2.parquet",
        "A/test-0-of-2.parquet",
        "A/train-0.parquet",
        "AB/test-0.parquet",
    ]
    assert select_files(names, config="A", split="test", **hub) == [
        "A/test-0-of-2.parquet",
        "A/test-1-of-2.parquet",
    ]
    assert select_files(names, config="C", split="test", **hub) == []
    assert (
        select_files(names, config=None, split="test", **hub) == []
    )  # two configurations: which one is a choice
    selected = select_files(
        ["data/test-0.parquet", "x/test.parquet"], config=None, split="test", **hub
    )
    assert selected == ["data/test-0.parquet"]
    local, both = {"suffixes": (".jsonl", ".csv"), "strict": False}, ["Age.jsonl", "Religion.jsonl"]
    assert select_files(both, config="All", split="test", **local) == both
    assert select_files(
        ["X-Dev.jsonl", "X-Train.jsonl"], config=None, split="validation", **local
    ) == ["X-Dev.jsonl"]
    assert select_files(["X-Dev.jsonl"], config=None, split="test", **local) == []
    assert select_files(["dev/a_dev.csv", "val/a_val.csv"], config=None, split="dev", **local) == [
        "dev/a_dev.csv"
    ]
