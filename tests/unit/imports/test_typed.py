"""Columns of answers and keys: each kind of cell, what is ambiguous, and right logs in every
dress."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dressed_logs import CORRECT, LETTER, LETTERS, NUMBER, TEXT, TRUTH, Log, logs, misread
from hypothesis import HealthCheck, given, settings

from audit.core.errors import AuditError, ConfigError, DataError
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts
from audit.imports.record import Wanted, is_failure
from audit.imports.typed import Columns, Typing, cell_of

Rows = Sequence[tuple[Any, Any]]


def table(path: Path, rows: Rows, **more: Any) -> Path:
    """A csv of (answer, gold)."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "item", "answer", "gold", *more])
        writer.writerows(
            ["m1", f"q{i}", answer, gold, *more.values()] for i, (answer, gold) in enumerate(rows)
        )
    return path


def score(path: Path, **wanted: Any) -> tuple[float, int]:
    """(accuracy, unparsed) of a table of one model."""
    joined = Joined()
    joined.add(path.name, read_log(path, Wanted(**wanted)).outcomes)
    (count,) = counts(joined)
    return pytest.approx(count.accuracy), count.unparsed


# --- the tables of public reports, built here


def cycle(cells: Sequence[Any], n: int = 40) -> list[Any]:
    return [cells[i % len(cells)] for i in range(n)]


def pairs(answers: Sequence[Any], keys: Sequence[Any]) -> Rows:
    return list(zip(answers, keys, strict=True))


REPORTS: list[tuple[str, Rows, tuple[float, int] | None]] = [
    (
        "04-table-letter-answer-index-gold",  # 28 answers are the key, 12 the one before it
        [(LETTERS[i % 4 if i < 28 else (i - 1) % 4], i % 4) for i in range(40)],
        (28 / 40, 0),
    ),
    (
        "05-table-float-column-from-gaps",  # 2 gaps; of 38 others 12 are the key + 1
        [("" if i in (3, 11) else f"{i + (i >= 28)}.0", i) for i in range(40)],
        (26 / 38, 2),
    ),
    (
        "06-table-dressed-letters",
        pairs(
            cycle(["(A)", "B.", "**C**", "Answer: D", "A)", "\\boxed{B}", "(C)", "D."]),
            cycle("ABCDABCD"),
        ),
        (1, 0),
    ),
    ("30-table-index-off-by-one", [(i % 4, i % 4 + 1) for i in range(40)], None),
    (
        "31-table-bool-words",
        pairs(cycle(["yes", "Yes.", "TRUE", "1"]), cycle(["yes", "yes", "True", "true"])),
        (1, 0),
    ),
    (
        "32-table-none-word-as-answer",
        pairs(cycle(["B", "None", "nan", "N/A", "B"]), cycle("B")),
        (1, 24),
    ),
]


@pytest.mark.parametrize(("name", "rows", "right"), REPORTS, ids=[report[0] for report in REPORTS])
def test_a_table_of_a_public_report(
    name: str, rows: Rows, right: tuple[float, int] | None, tmp_path: Path
) -> None:
    path = table(tmp_path / "log.csv", rows)
    if right is None:
        with pytest.raises(
            ConfigError, match=r"0 to 3 .* 1 to 4: .*--answer-as from0 --gold-as from1"
        ):
            score(path)
        assert score(path, answer_as="from0", gold_as="from1") == (1.0, 0)
        assert score(path, answer_as="number", gold_as="number") == (0.0, 0)
    else:
        assert score(path) == right


# --- one form of a column at a time: 40 items, 4 options, right but every fifth, which is the next
# option

WORDS = ("red", "green", "blue", "white")
KEYS = [i % 4 for i in range(40)]
GIVEN = [(key + (i % 5 == 0)) % 4 for i, key in enumerate(KEYS)]


@pytest.mark.parametrize("form", LETTER | NUMBER | TEXT)
@pytest.mark.parametrize("listed", [True, False])
def test_a_form_of_answers(form: str, listed: bool, tmp_path: Path) -> None:
    write = (LETTER | NUMBER | TEXT)[form]
    cells = [write(i, WORDS) for i in GIVEN]
    path = tmp_path / "log.jsonl"
    more = {"options": WORDS} if listed else {}
    rows = [
        {"model": "m", "item": str(i), "answer": a, "gold": LETTERS[k]} | more
        for i, (a, k) in enumerate(zip(cells, KEYS, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    readable = form not in ("look-alike", "circled", "from 0 comma", "text look-alike")
    if not listed:
        readable &= form not in TEXT and form != "letter text"  # the key is no text
    if readable:
        assert score(path) == (0.8, 0)
        return
    try:
        _, unparsed = score(path)
    except AuditError:
        return
    assert form == "look-alike" and unparsed > 0  # D alone has none


@pytest.mark.parametrize("form", CORRECT)
def test_a_form_of_scores(form: str, tmp_path: Path) -> None:
    """30 right, 10 wrong, and 2 without an answer, by any word for it."""
    right, wrong = CORRECT[form]
    cells = [*[right] * 30, *[wrong] * 10, None, "N/A"]
    path = tmp_path / "log.jsonl"
    rows = [{"model": "m", "item": str(i), "correct": cell} for i, cell in enumerate(cells)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if form in ("percent", "percent text", "mark", "minus", "list"):
        try:
            assert score(path) == (0.75, 2)
        except AuditError:
            assert form != "list"
    else:
        assert score(path) == (0.75, 2)


def test_n_alone_is_a_no_or_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for marks, expected in (("yyn", (2 / 3, 0)), ("CIN", (1 / 2, 1)), ("nn1", None), ("yCn", None)):
        path.write_text(
            "model,item,correct\n" + "".join(f"m,{i},{mark}\n" for i, mark in enumerate(marks))
        )
        if expected is None:
            with pytest.raises(AuditError, match=r"correct is n"):
                score(path)
        else:
            assert score(path) == expected


def test_no_answer_is_not_wrong_whatever_the_harness_counted(tmp_path: Path) -> None:
    """8 of 10 right; 3 without an answer, which the harness scored 0. Where such rows can be right,
    scores stand."""
    path = tmp_path / "log.csv"
    cells = [*["B,1"] * 8, *["A,0"] * 2, "None,0", "N/A,0", ",0"]
    path.write_text(
        "model,item,answer,correct\n" + "".join(f"m,{i},{cell}\n" for i, cell in enumerate(cells))
    )
    assert score(path) == (0.8, 3)
    path.write_text(
        "model,item,answer,correct\n"
        + "".join(f"m,{i},{c}\n" for i, c in enumerate([*cells, ",1"]))
    )
    assert score(path) == (9 / 14, 0)


# --- what columns are, by hand

TOWNS = [f"{LETTERS[i % 26]}{LETTERS[i // 26]}" for i in range(40)]
TYPED: list[tuple[str, list[str], list[str], list[str] | None, tuple[float, int] | None]] = [
    ("letters, keys from 1", cycle("ABCC"), cycle("1234"), None, (0.75, 0)),
    ("from 1, keys letters", cycle("1244"), cycle("ABCD"), None, (0.75, 0)),
    ("from 1 or from 0, keys letters", cycle("1233"), cycle("ABCD"), None, None),
    ("from 0 or from 1, keys from 0", cycle("1121"), cycle("0123"), None, None),
    ("0 in both", cycle("0013"), cycle("0123"), None, (0.5, 0)),
    ("one range", cycle("1243"), cycle("1234"), None, (0.5, 0)),
    (
        "numbers beyond options",
        cycle(["3", "70", "5", "1000"]),
        cycle(["3", "70", "6", "1000"]),
        None,
        (0.75, 0),
    ),
    (
        "texts, keys letters",
        cycle(["red", "Green.", "BLUE", "blue"]),
        cycle("ABCD"),
        list(WORDS),
        (0.75, 0),
    ),
    ("texts, keys letters, no options", cycle(WORDS), cycle("ABCD"), None, None),
    ("option texts are numbers from 1", cycle("2143"), cycle("ABCD"), list("2143"), None),
    (
        "option texts are other numbers",
        cycle(["20", "30", "10"], 39),
        cycle("ABC", 39),
        ["20", "30", "40", "10"],
        (2 / 3, 0),
    ),
    ("bits, keys yes and no", cycle("1010"), cycle(["yes", "no"]), None, None),
    ("bits, options no and yes", cycle("1010"), cycle(["yes", "no"]), ["no", "yes"], (1, 0)),
    ("bits, options yes and no", cycle("1010"), cycle(["yes", "no"]), ["yes", "no"], None),
    ("y and n, keys true and false", cycle("ynyy"), cycle(["true", "false"]), None, (0.75, 0)),
    ("a key of another alphabet", cycle("ABCD"), cycle(["A", "В", "C", "D"]), None, None),
    (
        "words",
        [f"**{town} town.**" for town in TOWNS],
        [f"{town} TOWN" for town in [*TOWNS[:30], *TOWNS[29:39]]],
        None,
        (0.75, 0),
    ),
    (
        "another label",
        cycle(["pos", "neg", "neutral", "neg"]),
        cycle(["pos", "neg", "pos", "pos"]),
        None,
        (0.5, 0),
    ),
    (
        "sentences about labels",
        cycle(["pos", "It is neg."]),
        cycle(["pos", "neg", "pos", "pos"]),
        None,
        (1, 20),
    ),
    (
        "a thousand, or one",
        cycle(["1.234", "2.5", "7", "8"]),
        cycle(["1234", "2.5", "7", "9"]),
        None,
        (2 / 3, 10),
    ),
    (
        "texts that begin with a letter",
        cycle(["Answer: a dog, a cat", "B"]),
        cycle("BB"),
        None,
        (1, 20),
    ),
    ("one answer to yes and no", cycle("1"), cycle(["TRUE", "no"]), list("AB"), None),
    (
        "junk among letters",
        cycle(["A", "B", "I do not know", "Z"]),
        cycle("ABCD"),
        list(WORDS),
        (1, 20),
    ),
]


@pytest.mark.parametrize(
    ("name", "answers", "keys", "options", "expected"), TYPED, ids=[case[0] for case in TYPED]
)
def test_columns_are_typed_as_a_whole(
    name: str,
    answers: list[str],
    keys: list[str],
    options: list[str] | None,
    expected: tuple[float, int] | None,
    tmp_path: Path,
) -> None:
    more = {"options": json.dumps(options)} if options else {}
    path = table(tmp_path / "log.csv", list(zip(answers, keys, strict=True)), **more)
    if expected is None:
        with pytest.raises(ConfigError, match=r"--answer-as .* --gold-as "):
            score(path)
    else:
        assert score(path) == expected


def test_what_is_told_is_not_asked(tmp_path: Path) -> None:
    """Answers 1, 2, 3, 3 of A, B, C, D: three right if they count from 1; from 0 B, C, D, D are,
    and one right."""
    path = table(tmp_path / "log.csv", list(zip(cycle("1233"), cycle("ABCD"), strict=True)))
    assert score(path, answer_as="from1") == (0.75, 0)
    assert score(path, answer_as="from0") == (0.25, 0)


def test_words_with_a_number_of_options_are_words(tmp_path: Path) -> None:
    path = table(tmp_path / "log.csv", [("Paris", "Paris"), ("Rome", "Oslo")] * 4)
    assert score(path, columns={"options": "4"}) == (0.5, 0)


def test_an_answer_is_kept_as_its_letter(tmp_path: Path) -> None:
    """The letter, whatever named the option, so that another order of the options can be put
    back."""
    path = table(
        tmp_path / "log.csv", [("green", "0"), ("red", "3")] * 5, options=json.dumps(WORDS)
    )
    outcomes = list(read_log(path, Wanted()).outcomes)
    assert [(outcome.answer, outcome.gold, outcome.right) for outcome in outcomes[:2]] == [
        ("B", 0, 0),
        ("A", 3, 0),
    ]


def test_a_key_is_in_every_row(tmp_path: Path) -> None:
    path = table(tmp_path / "log.csv", [("A", "A"), ("A", "N/A")])
    with pytest.raises(AuditError, match=r"line 3.*key is empty"):
        score(path)


def test_without_answers_nothing_is_typed() -> None:
    columns = Columns()
    columns.add(None, "A", ())
    assert columns.typing() == Typing() and Typing().judge("A", "A", ()) == (None, None, None)
    assert [cell_of(value) for value in (["A", "B"], {"a": 1}, [], " n/a ", "Na", 1e16, True)] == [
        None,
        None,
        None,
        None,
        "Na",
        "1e+16",
        "true",
    ]


# --- right logs in any dress


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(log=logs())
def test_a_right_log_has_its_score_in_any_dress(
    tmp_path_factory: pytest.TempPathFactory, log: Log
) -> None:
    """Each outcome is as it is, or unparsed; or the import is refused."""
    _, wrong = misread(log, tmp_path_factory.mktemp("log"))
    assert not wrong


def test_the_dresses_are_at_least_thirty_and_a_spoilt_log_is_seen(tmp_path: Path) -> None:
    assert len(LETTER | NUMBER | TEXT | TRUTH) >= 30
    rows = [
        {"model": "m", "item": f"q{i}", "answer": LETTERS[a], "gold": LETTERS[k]}
        for i, (a, k) in enumerate(zip(GIVEN, KEYS, strict=True))
    ]
    right: dict[str, bool | None] = {f"q{i}": i % 5 != 0 for i in range(40)}
    how = {
        "separator": ";",
        "quoting": csv.QUOTE_ALL,
        "end": "\r\n",
        "encoding": "utf-8-sig",
        "before": "",
        "ascii": 0,
    }
    log = Log(right, rows, Wanted(), "csv", how)
    assert misread(log, tmp_path) == ("read", {})
    rows[7]["answer"] = "A"
    assert misread(log, tmp_path) == ("read", {"q7": (True, 0)})


@pytest.mark.parametrize(
    ("answers", "correct", "refused"),
    [
        (["True", "False"], ["False", "False"], True),
        ([0, 1], [1, 0], True),
        (["yes", "no"], ["yes", "yes"], True),
        (["B", "D"], ["C", "C"], True),
        (["True", "False"], [1, 0], False),
        (["B", "D"], ["C", "I"], False),  # Inspect's marks
        ([2, 3], [1, 0], False),
        (["18", "19"], ["1", "0"], False),
    ],
)
def test_a_column_correct_that_may_be_the_key_is_refused(
    answers: list[Any], correct: list[Any], refused: bool, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        {"model": "m", "item": str(k), "answer": answers[k % 2], "correct": correct[k % 2]}
        for k in range(20)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if refused:
        with pytest.raises(DataError, match="--map gold=correct"):
            score(path)
        assert len(list(read_log(path, Wanted(columns={"correct": "correct"})).outcomes)) == 20
    else:
        score(path)


FAILURES = (
    "Error: timed out",
    "Error code: 429 - {'error': 'rate'}",
    "HTTP 503",
    "429 Too Many Requests",
    "API Error 500",
    "openai.RateLimitError: limit 18",
    '{"error": {"code": 500}}',
    "Traceback (most recent call last):",
    "Request timed out.",
)
REPLIES = (
    "The error is 5 %.",
    "400 people",
    "500 - 3 = 497",
    "Terror: 12",
    "404 apples",
    "450 bad apples",
    "error",
)


@pytest.mark.parametrize("column", ["answer", "reply"])
def test_a_clients_error_in_place_of_a_reply_is_no_wrong_answer(
    column: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    replies = [*FAILURES, *["180"] * 30, *["170"] * 10]
    rows = [
        {"model": "m", "item": str(k), column: reply, "gold": "180"}
        for k, reply in enumerate(replies)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert score(path) == (0.75, len(FAILURES))
    assert not any(map(is_failure, REPLIES))


def test_the_same_words_in_another_order_are_unparsed(tmp_path: Path) -> None:
    keys = ["red, blue", "red, green", "blue, green, red"] * 4
    answers = [keys[0], "green, red", "blue, red", *keys[3:]]
    path = tmp_path / "t.jsonl"
    rows = [
        {"model": "m", "item": str(k), "answer": a, "gold": g}
        for k, (a, g) in enumerate(zip(answers, keys, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert score(path) == (10 / 11, 1)  # "blue, red" is the first key, and not the third


def test_a_sentence_about_a_lettered_key_is_unparsed(tmp_path: Path) -> None:
    keys = [f"{'ABCD'[k % 4]}. the river {k}" for k in range(30)]
    answers = [f"The answer is the river {k} because it must be." for k in range(10)] + keys[10:]
    path = tmp_path / "t.jsonl"
    pairs = enumerate(zip(answers, keys, strict=True))
    rows = [{"model": "m", "item": str(k), "answer": a, "gold": g} for k, (a, g) in pairs]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert score(path) == (1.0, 10)


# --- "B. Paris", where no option is listed


def test_beside_a_key_that_is_a_letter_a_lettered_text_is_that_letter(tmp_path: Path) -> None:
    """Species are "E. coli", and "E. COLI" in a column of capitals: such may be texts, and are unparsed."""
    rows = [*pairs(cycle("ABCD"), cycle("ABCD")), ("B. Paris", "B"), ("C. Rome", "A")]
    rows += [("E. coli", "A"), ("D. COLI", "D")]
    assert score(table(tmp_path / "log.csv", rows)) == (pytest.approx(41 / 42), 2)


def test_initials_of_persons_are_no_letters_of_options(tmp_path: Path) -> None:
    rows = [
        (f"{'AB'[i % 2]}. Person{i + (i % 4 == 0)}", f"{'AB'[i % 2]}. Person{i}") for i in range(40)
    ]
    assert score(table(tmp_path / "log.csv", rows)) == (0.75, 0)


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        ("E. coli", "D. E. coli"),
        ("B. E. coli", "The answer is E. coli because it must be."),
        ("mañana", "C. manana"),
        ("crème brûlée", "crème brûlee"),
    ],
)
def test_a_text_with_and_without_its_letter_or_accents_is_never_another(
    tmp_path: Path, answer: str, key: str
) -> None:
    """The key names the answer's text in another dress: equal texts are right, and no text is wrong."""
    others = ("Paris", "the Nile", "water")
    rows = [(text, text) for text in (*others, answer, key) * 6] + [(answer, key), (key, answer)]
    right, unparsed = score(table(tmp_path / "log.csv", rows))
    assert (right, unparsed) == (1.0, 2)


def test_a_letter_that_is_the_text_of_another_option_is_unparsed_among_texts(
    tmp_path: Path,
) -> None:
    """In a column of texts, "A" is the option with this text or the first one."""
    cities, options = '["Paris", "Rome"]', '["x = y", "A"]'
    sentence = "The answer is Rome because it must be."
    rows = [(sentence, "Rome", cities)] * 8 + [("A", "x = y", options), ("A", "A", options)]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("model", "item", "answer", "gold", "options"))
        writer.writerows(("m", f"q{i}", *row) for i, row in enumerate(rows))
    assert score(path) == (1.0, 2)


@pytest.mark.parametrize("options", [True, False])
def test_numbers_of_options_are_not_values_because_a_few_answers_are_unreadable(
    tmp_path: Path, options: bool
) -> None:
    """20 of 42 answers count from 0, and two are out of range: as values all would be wrong."""
    texts = [str(3 * i + 1) for i in range(5)]
    places = [0, 1, 2, 3, 4] * 4
    rows: list[dict[str, object]] = [
        {"answer": float(i), "gold": texts[i] if options else i + 1} for i in places
    ]
    rows += [{"answer": f"{i},0", "gold": texts[i] if options else i + 1} for i in places]
    rows += [{"answer": "99.0", "gold": rows[0]["gold"]}] * 2
    rows = [dict(row) for row in rows]
    for i, row in enumerate(rows):
        row |= {"model": "m", "item": f"q{i}"} | ({"options": texts} if options else {})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match="answer"):
        score(path)
