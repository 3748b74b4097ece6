"""Held-out items by a short word: the named twin of a benchmark, or its own items after a date."""

from dataclasses import replace

import pytest
from exams import MCQ, TWO, jsonl, refused

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.fresh import Origin, check_origin, is_newer
from audit.benchmarks.load import open_benchmark
from audit.config.base import CONF_DIR, load_group
from audit.config.short_forms import with_twin
from audit.core.errors import ConfigError

DATES = ["2024-01-05", "2024-06", "2024-06-30", "2024-07-01T10:00:00", "2025"]


@pytest.mark.parametrize(
    ("name", "twin"), [("gsm8k", "gsm1k"), ("mmlu", "mmlu_cf"), ("math", "math_perturb")]
)
def test_auto_takes_the_twin_that_the_benchmark_names(name: str, twin: str):
    assert (
        with_twin([f"benchmark={name}", "control_benchmark=auto"])[1] == f"control_benchmark={twin}"
    )
    assert with_twin(["n=3", "benchmark=gsm8k"]) == ["n=3", "benchmark=gsm8k"]


@pytest.mark.parametrize(
    "path", sorted((CONF_DIR / "benchmark").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_twin_is_a_benchmark_with_a_date_and_an_author(path):
    twin = load_group("benchmark", path.stem).get("twin")
    if twin is not None:
        twin_config = load_group("benchmark", twin)
        assert twin_config["name"] == twin and twin_config["date"] and twin_config["written_by"]


@pytest.mark.parametrize(
    "words",
    [
        ["benchmark=bbq", "control_benchmark=auto"],
        ["fresh_after=2024"],
        ["benchmark=mcq_file", "fresh_after=June"],
        ["benchmark=mcq_file", "fresh_after=2024", "control_benchmark=gsm1k"],
        ["benchmark=mcq_file", "fresh_after=released", "model=scripted"],
    ],
)
def test_what_has_no_held_out_items_is_refused(words):
    with pytest.raises(ConfigError, match=r"fresh_after=|such as 2026"):
        with_twin(words)


def test_fresh_after_splits_a_benchmark_at_a_date(tmp_path):
    path = jsonl(
        tmp_path / "dated.jsonl", *({**TWO, "question": f"{date}?", "date": date} for date in DATES)
    )
    words = with_twin(
        [
            "benchmark=mcq_file",
            f"benchmark.path={path}",
            "benchmark.name=exam",
            "fresh_after=2024-06",
        ]
    )
    options = dict(word.split("=", 1) for word in words)
    assert (
        options["control_benchmark.name"] == "exam_from_2024-07"
        and options["control_benchmark.date"] == "2024-07.."
    )

    def texts(side):
        settings = {
            key.split(".")[1]: value for key, value in options.items() if key.startswith(f"{side}.")
        }
        config = BenchmarkConfig(format="mcq_file", **settings)
        return [question.text.rstrip("?") for question in open_benchmark(config).iter_questions()]

    # a month is after another month only as a whole; a year that begins later is after it
    assert texts("benchmark") == DATES[:3] and texts("control_benchmark") == DATES[3:]


def test_a_row_without_a_date_is_refused(tmp_path):
    path = jsonl(tmp_path / "undated.jsonl", TWO)
    assert "benchmark.date_column=" in refused(path, replace(MCQ, dated_after="2024"))


def test_the_released_date_of_a_model_is_a_date_to_split_at():
    words = with_twin(["model=llama3_8b", "benchmark=mcq_file", "fresh_after=released"])
    assert "control_benchmark.dated_after=2024-07" in words


LLAMA = {"llama3_8b": Origin("2024-07", "llama")}
QWEN = {"qwen2_5_7b": Origin("2024-09", "qwen")}
MISTRAL = {"mistral_7b": Origin("2024-05", "mistral")}


def test_a_date_is_newer_only_where_all_of_it_is_later() -> None:
    assert is_newer("2024-10-01", "2024-09")
    assert (
        not is_newer("2024", "2024-07")
        and not is_newer("2024-07", "2024-07")
        and not is_newer("2023-12", "2024")
    )
    assert is_newer("2024-08..2024-09", "2024-07") and not is_newer("2024-07..2024-09", "2024-07")
    for odd in ("May 2024", "2024-13", "24", "2024-07-32", "", "..2024", "2024-08..2024-07"):
        with pytest.raises(ConfigError, match=r"The dates? (is|are)"):
            is_newer(odd, "2024")


@pytest.mark.parametrize(
    ("date", "writer", "tested", "references", "named"),
    [
        ("2026-05", "people", LLAMA, QWEN | MISTRAL, []),
        ("2026-05", "qwen", LLAMA, QWEN, ["qwen2_5_7b"]),  # by the family of a reference
        ("2024-08", "people", LLAMA, MISTRAL, []),
        (
            "2024-08",
            "people",
            QWEN,
            LLAMA,
            ["training"],
        ),  # they may have been in the tested model's
        (None, None, LLAMA, QWEN, ["control_benchmark.date", "control_benchmark.written_by"]),
        ("2026-05", "people", LLAMA, {"mine": Origin()}, ["model.mine.released"]),
        ("2026-05", "qwen", {"mine": Origin("2025")}, {}, ["model.mine.family"]),
    ],
)
def test_what_is_open_is_named_with_the_key_that_says_it(
    date, writer, tested, references, named
) -> None:
    notes = check_origin("fresh", date, writer, tested, references)["held_out"]
    assert len(notes) == len(named) and all(
        word in note for word, note in zip(named, notes, strict=True)
    )


@pytest.mark.parametrize(
    ("date", "writer", "references", "why"),
    [
        *(
            ("2026-05", name, QWEN, "the family of the tested model llama3_8b")
            for name in ("llama", "LLAMA3_8B")
        ),
        # written in August 2024: after llama3_8b (July), before qwen2_5_7b (September)
        (
            "2024-08",
            "people",
            MISTRAL | QWEN,
            "the tested model llama3_8b .* than reference qwen2_5_7b",
        ),
        # written from May to August: the newest are newer than llama3_8b, the oldest not than mistral_7b
        (
            "2024-05..2024-08",
            "people",
            MISTRAL,
            "than reference mistral_7b .* released before 2024-05,",
        ),
    ],
)
def test_held_out_items_that_a_model_wrote_or_that_suit_one_alone_are_refused(
    date, writer, references, why
) -> None:
    with pytest.raises(ConfigError, match=why):
        check_origin("fresh", date, writer, LLAMA, references)


@pytest.mark.parametrize(
    ("date", "released", "reference", "missing"),
    [
        ("2024-08", "2024-07", "2024-05", []),  # new to both
        # Items that are not newer than the tested model make no gap.
        ("2024-06", "2024-07", "2024-05", []),
        ("2024-06", "2024-07", None, []),
        ("2024-08", "2024-07", None, ["other"]),  # as new to the reference?
        ("2024-08", None, "2024-05", ["mine"]),
        # Some items are newer than the tested model: references must be older than all of them.
        ("2024-06..2024-08", "2024-07", "2024-05", []),
        ("2024-06..2024-08", "2024-07", None, ["other"]),
        ("2024-06..2024-07", "2024-07", "2024-06", []),
        ("2024-06..", "2024-07", None, ["other"]),
        # A year may hold items that are newer than a month of it.
        ("2024", "2024-07", None, ["other"]),
        ("2024-08", None, None, ["mine", "other"]),
        (None, "2024-07", "2024-05", [""]),
        (None, None, "2024-05", ["", "mine"]),
    ],
)
def test_a_gap_needs_items_that_are_no_newer_for_the_tested_model_alone(
    date: str | None, released: str | None, reference: str | None, missing: list[str]
) -> None:
    origin = check_origin(
        "fresh", date, "people", {"mine": Origin(released)}, {"other": Origin(reference)}
    )
    assert origin["undated"] == ["mine"] * bool(missing) and origin["dates_missing"] == missing


@pytest.mark.parametrize(
    ("date", "tested", "reference"),
    [("May", None, None), (None, "24", None), (None, None, "2024-13")],
)
def test_what_is_no_date_is_refused_alone_too(
    date: str | None, tested: str | None, reference: str | None
) -> None:
    with pytest.raises(ConfigError, match=r"The dates? (is|are)"):
        check_origin(
            "fresh", date, "people", {"mine": Origin(tested)}, {"other": Origin(reference)}
        )
