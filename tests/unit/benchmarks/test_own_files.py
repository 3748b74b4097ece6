"""Files as people have them: passages, lettered options, encodings, delimiters, saved datasets,
other column names."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from commands_here import data as show
from exams import MCQ, TWO, jsonl, opened, questions, refused

from audit.benchmarks.answers import own_letters, resolve_answer
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.files import likely_encoding
from audit.benchmarks.guess import guess, other_keys
from audit.core.errors import BenchmarkError, ConfigError

ROW = {"question": "What does it do?", "choices": ["sings", "barks"], "answer": 1}


# --- passages ---


def test_a_passage_stands_before_its_question_and_keeps_its_questions_together(
    tmp_path: Path,
) -> None:
    rows = [
        {**ROW, "passage": p, "question": q}
        for p, q in (("A dog.", "What?"), ("A dog. ", "Who?"), ("", "When?"))
    ]
    first, second, alone = questions(
        jsonl(tmp_path / "a.jsonl", *rows), replace(MCQ, context_column="passage")
    )
    assert (
        first.text == "A dog.\n\nWhat?"
        and second.text == "A dog.\n\nWho?"
        and alone.text == "When?"
    )
    assert first.group == second.group != alone.group == alone.id


@pytest.mark.parametrize("name", ["Passage", "support", "ctx", "background", "scenario"])
def test_a_passage_that_no_setting_names_is_not_lost_in_silence(tmp_path: Path, name: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", {**ROW, name: "A dog."})
    assert f"'{name}'" in refused(path)
    assert f"benchmark.context_column={name}" in refused(path)
    assert questions(path, replace(MCQ, context_column=""))[0].text == "What does it do?"
    path = jsonl(tmp_path / "b.jsonl", {**ROW, "passage": ["A"]})
    assert "expected a text" in refused(path, replace(MCQ, context_column="passage"))


def test_a_passage_that_a_setting_reads_is_no_reason_to_refuse(tmp_path: Path) -> None:
    sciq = {
        "question": "What barks?",
        "choices": ["a dog", "a cat"],
        "answer": 0,
        "support": "Dogs bark.",
    }
    read = questions(jsonl(tmp_path / "sciq.jsonl", sciq), replace(MCQ, context_column="support"))
    assert read[0].text == "Dogs bark.\n\nWhat barks?"
    hellaswag = {"ctx": "A dog opens its mouth and", "endings": ["sings", "barks"], "label": 1}
    columns = replace(MCQ, question_column="ctx", choices_column="endings", answer_column="label")
    assert (
        questions(jsonl(tmp_path / "hellaswag.jsonl", hellaswag), columns)[0].text
        == "A dog opens its mouth and"
    )
    openbookqa = {**ROW, "fact1": "dogs bark"}  # an aid that the question is usually asked without
    assert questions(jsonl(tmp_path / "openbookqa.jsonl", openbookqa))[0].text == "What does it do?"


# --- options with their own letter ---


@pytest.mark.parametrize(
    ("options", "letters", "texts"),
    [
        (("(A) 5", "(B) 6"), ("A", "B"), ("5", "6")),
        (("A)21", "B)21.5"), ("A", "B"), ("21", "21.5")),
        (("a. sings", "b. barks"), ("A", "B"), ("sings", "barks")),
        (
            ("(B) 5", "(A) 6"),
            ("B", "A"),
            ("5", "6"),
        ),  # out of order: each keeps its letter as its label
        (("E. coli", "C. elegans"), (), ("E. coli", "C. elegans")),
        (("(A) 5", "6"), (), ("(A) 5", "6")),
        (("(A) 5", "(A) 6"), (), ("(A) 5", "(A) 6")),
        (("(A)", "(B)"), (), ("(A)", "(B)")),
    ],
)
def test_own_letters(
    options: tuple[str, ...], letters: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    assert own_letters(options) == (letters, texts)


@pytest.mark.parametrize("gold", ["B", "b", "(B)", "(B) 6", "6", " 6 "])
def test_the_gold_of_lettered_options(tmp_path: Path, gold: str) -> None:
    row = {"question": "2 * 3 = ?", "choices": ["(A) 5", "(B) 6"], "answer": gold}
    [question] = questions(jsonl(tmp_path / "a.jsonl", row))
    assert (question.options, question.gold) == (("5", "6"), 1)


def test_a_gold_that_contradicts_its_letter_is_refused(tmp_path: Path) -> None:
    row = {"question": "2 * 3 = ?", "choices": ["(B) 5", "(A) 6"], "answer": "B"}
    assert questions(jsonl(tmp_path / "a.jsonl", row))[0].gold == 0  # the option that says B
    row["answer"] = "(A) 5"
    assert "'5'" in refused(jsonl(tmp_path / "b.jsonl", row))
    row["answer"] = "C"
    assert "B, A" in refused(jsonl(tmp_path / "c.jsonl", row))


# --- answers ---


@pytest.mark.parametrize(
    "gold", ["b", "(B)", "B.", " Carbon Dioxide ", "carbon  dioxide", "carbon dioxide"]
)
def test_answers_as_people_write_them(gold: str) -> None:
    assert resolve_answer(gold, ["oxygen", "carbon dioxide", "helium"]) == 1


def test_case_decides_where_it_is_all_that_differs() -> None:
    assert resolve_answer("PH", ["pH", "PH"]) == 1
    with pytest.raises(BenchmarkError, match="2 options"):
        resolve_answer("ph", ["pH", "PH"])
    with pytest.raises(BenchmarkError, match="ambiguous"):
        resolve_answer("b", ["b", "a"])  # a letter, or the text of the other option


# --- encodings ---


@pytest.mark.parametrize(
    ("python", "iconv"),
    [
        ("latin-1", "WINDOWS-1252"),
        ("mac-roman", "MACINTOSH"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
    ],
)
@pytest.mark.parametrize("name", ["exam.csv", "exam.jsonl", "exam.json"])
def test_advice_names_the_likely_encoding(
    tmp_path: Path, python: str, iconv: str, name: str
) -> None:
    text = "question,A,B,answer\nWas heißt „schön“ auf Französisch?,beau,laid,A\n"
    if "json" in name:
        text = (
            json.dumps({**ROW, "question": "Où est le café, Dr. Müller ?"}, ensure_ascii=False)
            + "\n"
        )
    path = tmp_path / name
    path.write_bytes(text.encode(python, errors="ignore"))
    assert f"`iconv -f {iconv} -t UTF-8 {name}" in refused(path)


def test_an_encoding_that_cannot_be_told_is_not_guessed() -> None:
    assert likely_encoding("水は何度で沸騰しますか".encode("shift-jis")) is None
    assert likely_encoding("Какая столица России".encode("cp1251")) is None


def test_a_published_file_in_mac_roman_is_named_so(shared_data: Path) -> None:
    [path] = shared_data.rglob("mmlu_moral_scenarios.csv")
    assert likely_encoding(path.read_bytes()) == "MACINTOSH"


# --- delimiters and saved datasets ---


def test_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question;A;B;answer\nWhat, then?;x;y;B\n")
    assert 'benchmark.delimiter=";"' in refused(path)
    [question] = questions(path, replace(MCQ, delimiter=";"))
    assert (question.text, question.options, question.gold) == ("What, then?", ("x", "y"), 1)
    path.write_text(path.read_text().replace(";", "\t"))
    assert questions(path, replace(MCQ, delimiter="\\t")) == [question]  # as a shell hands it over
    path = tmp_path / "a.tsv"
    path.write_text("question\tA\tB\tanswer\nWhat, then?\tx\ty\tB\n")
    assert questions(path) == [question]
    with pytest.raises(ConfigError, match="one character"):
        questions(path, replace(MCQ, delimiter="||"))


def test_a_folder_of_two_kinds_of_file_is_not_read_by_half(tmp_path: Path) -> None:
    jsonl(tmp_path / "one.jsonl", TWO)
    (tmp_path / "about.json").write_text("{}")  # no data: it was left out before, and is
    assert len(questions(tmp_path)) == 1
    (tmp_path / "two.csv").write_text("question,choices,answer\n")
    with pytest.raises(
        BenchmarkError, match=r"several kinds of files: one\.jsonl and two\.csv.*Name one file"
    ):
        opened(tmp_path)


def save_to_disk(folder: Path, rows: list[dict[str, object]]) -> None:
    """The files that `datasets.Dataset.save_to_disk` leaves: an Arrow stream beside two JSON
    files."""
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as stream:
        stream.write_table(table)
    (folder / "state.json").write_text(
        '{"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": null}'
    )
    (folder / "dataset_info.json").write_text("{}")


def test_folders_of_save_to_disk(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "one", [ROW])
    for split, text in (("train", "no"), ("test", "What does it do?")):
        save_to_disk(tmp_path / "several" / split, [{**ROW, "question": text}])
    (tmp_path / "several" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for name in ("one", "several"):
        assert [q.text for q in questions(tmp_path / name)] == ["What does it do?"], name
    with pytest.raises(BenchmarkError, match=r"no \.arrow file of split 'dev'.*test/data-00000"):
        questions(tmp_path / "several", replace(MCQ, split="dev"))
    other = tmp_path / "several/train/data-00000-of-00001.arrow"
    (tmp_path / "one" / "cache-1f2e3d.arrow").write_bytes(
        other.read_bytes()
    )  # as `datasets` leaves beside the data
    assert [q.text for q in questions(tmp_path / "one")] == ["What does it do?"]
    (tmp_path / "bad.arrow").write_bytes(b"no arrow")
    assert "bad.arrow, after row 0" in refused(tmp_path / "bad.arrow")


def test_a_folder_with_a_shard_missing_is_not_the_benchmark(tmp_path: Path) -> None:
    for k in (0, 2):
        jsonl(tmp_path / f"test-0000{k}-of-00003.jsonl", ROW)
    assert "test-00001-of-00003.jsonl" in refused(tmp_path)
    jsonl(tmp_path / "test-00001-of-00003.jsonl", {**ROW, "question": "Another?"})
    assert questions(tmp_path)


def test_a_published_format_saved_to_disk(tmp_path: Path) -> None:
    row = {
        "id": "q1",
        "question": "Which?",
        "choices": {"text": ["x", "y"], "label": ["A", "B"]},
        "answerKey": "B",
    }
    save_to_disk(tmp_path / "arc", [row])
    [question] = questions(tmp_path / "arc", BenchmarkConfig(name="arc_easy", format="arc_easy"))
    assert question.gold == 1


# --- column names ---


@pytest.mark.parametrize(
    ("row", "setting"),
    [
        (
            {"question": "Which?", "choices": ["x", "y"], "answerKey": "B"},
            "benchmark.answer_column=answerKey",
        ),
        (
            {"question": "Which?", "choices": ["x", "y"], "Label": 1},
            "benchmark.answer_column=Label",
        ),
        (
            {"question_stem": "Which?", "choices": ["x", "y"], "answer": 1},
            "benchmark.question_column=question_stem",
        ),
        (
            {"question": "Which?", "options": ["x", "y"], "answer": 1},
            "benchmark.choices_column=options",
        ),
    ],
)
def test_a_missing_column_names_the_one_that_was_probably_meant(
    tmp_path: Path, row: dict[str, object], setting: str
) -> None:
    assert f"Set {setting}" in refused(jsonl(tmp_path / "a.jsonl", row))


@pytest.mark.parametrize(("lowest", "n", "warned"), [(1, 20, True), (0, 20, False), (1, 19, False)])
def test_keys_that_never_name_the_first_option_are_told(
    tmp_path: Path, lowest: int, n: int, warned: bool
) -> None:
    rows = [
        {"question": f"{k}?", "choices": ["a", "b", "c"], "answer": lowest + k % 2}
        for k in range(n)
    ]
    path = jsonl(tmp_path / "exam.jsonl", *rows)
    assert any("index_base=1" in warning for warning in opened(path).warnings) is warned


@pytest.mark.parametrize(
    ("keys", "either"), [(("4", "2", "2"), True), (("4", "0", "2"), False), (("4",), False)]
)
def test_keys_that_could_count_from_0_and_from_1_are_told_by_any_row(
    keys: tuple[str, ...], either: bool
) -> None:
    """The first row's "4" is the last option's text, whatever the others count from."""
    options = (
        dict(zip("ABCD", "1234", strict=True)),
        dict(zip("ABCD", ("Rome", "Paris", "Oslo", "Bern"), strict=True)),
    )
    rows = [{"question": f"{k}?", **options[k > 0], "answer": key} for k, key in enumerate(keys)]
    assert (
        bool(other_keys(rows, BenchmarkConfig(choice_columns=list("ABCD"), answer_column="answer")))
        is either
    )


def test_a_number_that_may_name_an_option_or_be_one_is_told() -> None:
    """Mars has two moons: read as a place from 0, the key is 3."""
    moons = (("Mars", "1230", "2"), ("Earth", "2310", "1"))
    rows = [
        {"question": f"Moons of {who}?", **dict(zip("ABCD", of, strict=True)), "answer": n}
        for who, of, n in moons
    ]
    read = guess(rows, BenchmarkConfig())
    assert read.answer_as == "index" and other_keys(rows, read)["answer_as=text"] == 2


def test_columns_that_no_name_tells_are_those_that_can_be_read() -> None:
    """Before a note beside the question, a number that is no key, and scores of the same shape as
    options."""
    options = dict(zip(("o1", "o2", "o3", "o4"), ("Rome", "Paris", "Oslo", "Bern"), strict=True))
    other = {"note": "easy", "stamp": "1700000000" * 3, "score_1": "7", "score_2": "3"}
    keys = enumerate("ABCDA", start=1)
    rows = [
        {"nr": str(k), "frage": f"What is asked {k}?", **options, "loesung": key, **other}
        for k, key in keys
    ]
    columns = guess(rows, MCQ)
    assert (columns.question_column, columns.answer_column) == ("frage", "loesung")
    assert columns.choice_columns == ["o1", "o2", "o3", "o4"]
    typed = guess(rows, replace(MCQ, answer_column="note"))
    assert typed.answer_column == "note"  # though it cannot be read
    assert (
        guess([{"a": "?", "b": "A"}], MCQ).question_column == MCQ.question_column
    )  # nothing can be read


def test_options_of_an_unknown_stem_are_found_by_their_letters() -> None:
    answers = [{f"Antwort {letter}": k + i for i, letter in enumerate("ABC")} for k in range(5)]
    rows = [
        {"Frage": f"Wie viel ist {k} + 1?", **of, "Richtig": "2"} for k, of in enumerate(answers)
    ]
    columns = guess(rows, MCQ)
    assert columns.choice_columns == ["Antwort A", "Antwort B", "Antwort C"]
    assert (columns.question_column, columns.answer_column) == ("Frage", "Richtig")


def test_a_file_without_a_line_of_names_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.csv"
    for head, refusal in (("", True), ("q,w,x,y,z,k\n", False)):
        path.write_text(head + "What is 1 + 1?,1,2,3,4,B\nWhat is 2 + 2?,1,2,3,4,D\n")
        assert show(["show", str(path)]) == 1 or head
        assert ("Expected the names of the columns" in capsys.readouterr().out) is refusal


def test_a_file_with_nulls_and_objects_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.jsonl"
    row = {
        "question": "Which?",
        "choices": ["x", "y"],
        "answer": 1,
        "source": None,
        "graded": {"by": "us"},
    }
    jsonl(path, *({**row, "question": f"Which {k}?"} for k in range(3)))
    assert show(["show", str(path)]) == 0
    assert "source, graded" in capsys.readouterr().out


def test_a_published_file_is_named_with_the_line_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choices = [{"label": "A", "text": "sings"}, {"label": "B", "text": "barks"}]
    item = {
        "id": "q1",
        "question": {"stem": "What does a dog do?", "choices": choices},
        "answerKey": "B",
    }
    path = jsonl(tmp_path / "ARC-Easy.jsonl", item)
    assert show(["show", str(path)]) == 1
    assert f"audit plan benchmark=arc_easy benchmark.path={path}" in capsys.readouterr().out
    path = jsonl(tmp_path / "own.jsonl", {"frage": "What does a dog do?"})
    assert show(["show", str(path)]) == 1
    assert "audit plan" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "listed", ['["sings", "barks"]', "['sings', 'barks']", """['sings', "barks"]"""]
)
def test_options_are_a_list_as_json_or_python_writes_it(tmp_path: Path, listed: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", {**ROW, "choices": listed})
    assert questions(path)[0].options == ("sings", "barks")


@pytest.mark.parametrize(
    "listed", ["'sings', 'barks'", "{'a': 1}", "sings, barks", "[" * 9999, "1,2", "[print(1), 2]"]
)
def test_options_that_are_no_list_are_refused(tmp_path: Path, listed: str) -> None:
    assert "choices_separator" in refused(jsonl(tmp_path / "a.jsonl", {**ROW, "choices": listed}))


def test_no_options_are_named_as_what_is_wrong(tmp_path: Path) -> None:
    message = refused(jsonl(tmp_path / "a.jsonl", {**ROW, "choices": []}))
    assert "-1" not in message.partition(str(tmp_path))[0]  # the folder may be called pytest-110


# --- what a file holds that is not asked ---

PLAIN = {"question": "What barks?", "choices": ["a cat", "a dog"], "answer": 1}


@pytest.mark.parametrize(
    ("more", "quoted"),
    [
        ({"image": "q1.png"}, "'image'"),
        ({"Figure URL": "anything"}, "'Figure URL'"),
        ({"attachment": "data:image/png;base64,AAAA"}, "'attachment'"),
        ({"media": "pictures/q1.JPEG"}, "'media'"),
        ({"question": "Look at the figure. What barks?"}, "refer to a figure"),
        ({"question": "What barks in the diagram below?"}, "refer to a figure"),
    ],
)
def test_images_are_told_since_questions_are_sent_as_text(
    tmp_path: Path, more: dict[str, str], quoted: str
) -> None:
    rows = [{**PLAIN, "question": f"{k}: What barks?", "answer": k % 2} for k in range(4)]
    path = jsonl(tmp_path / "a.jsonl", *rows)
    assert not opened(path).warnings
    path = jsonl(tmp_path / "b.jsonl", {**rows[0], **more}, *rows[1:])
    (warning,) = opened(path).warnings
    assert quoted in warning and "1 of 4" in warning


@pytest.mark.parametrize(
    "question", ["Which figure of speech is this?", "What does a photo show?", "See the sea."]
)
def test_words_that_only_sound_like_a_figure_are_no_warning(tmp_path: Path, question: str) -> None:
    rows = [{**PLAIN, "question": f"{k}: {question}", "answer": k % 2} for k in range(4)]
    assert not opened(jsonl(tmp_path / "a.jsonl", *rows)).warnings


def test_ids_that_repeat_are_told_and_unique_ones_are_read(tmp_path: Path) -> None:
    rows = [
        {**PLAIN, "id": f"q{k % 3}", "question": f"{k}: What barks?", "answer": k % 2}
        for k in range(5)
    ]
    (warning,) = opened(jsonl(tmp_path / "a.jsonl", *rows)).warnings
    assert "'id'" in warning and "2 of its values" in warning  # q0 and q1 twice, q2 once
    assert guess(rows, BenchmarkConfig()).id_column is None
    unique = [{**row, "id": f"q{k}"} for k, row in enumerate(rows)]
    assert guess(unique, BenchmarkConfig()).id_column == "id"
    assert not opened(jsonl(tmp_path / "b.jsonl", *unique)).warnings


@pytest.mark.parametrize("name", ["opts", "mc", "Antworten"])
def test_a_list_column_of_any_name_is_read_as_the_options(name: str, tmp_path: Path) -> None:
    rows = [
        {"question": f"{k}: What barks?", name: ["a cat", "a dog"], "answer": "AB"[k % 2]}
        for k in range(4)
    ]
    assert guess(rows, BenchmarkConfig()).choices_column == name
    assert f"benchmark.choices_column={name}" in refused(jsonl(tmp_path / "a.jsonl", *rows))
    two = [{**row, "tags": ["x", "y"]} for row in rows]  # which of them is not told
    assert guess(two, BenchmarkConfig()).choices_column == BenchmarkConfig().choices_column


def test_free_answers_are_told_with_a_way_to_go_on(tmp_path: Path) -> None:
    message = refused(jsonl(tmp_path / "a.jsonl", {"question": "What barks?", "answer": "a dog"}))
    assert "free text" in message and "benchmark=gsm8k" in message
    assert "free text" not in refused(
        jsonl(tmp_path / "b.jsonl", {**PLAIN, "choices": None, "answers": ["a", "b"]})
    )
