"""Held-out items that suit one model alone: by whom and when they were written."""

import pytest

from audit.benchmarks.fresh import Origin, check_origin, is_newer
from audit.errors import ConfigError

LLAMA = {"llama3_8b": Origin("2024-07", "llama")}
QWEN = {"qwen2_5_7b": Origin("2024-09", "qwen")}
MISTRAL = {"mistral_7b": Origin("2024-05", "mistral")}


def notes(*told: object) -> list[str]:
    return check_origin(*told)["held_out"]  # type: ignore[arg-type]


def test_a_date_is_newer_only_where_all_of_it_is_later() -> None:
    assert is_newer("2024-08", "2024-07-23") and is_newer("2025", "2024-12-31") and is_newer("2024-10-01", "2024-09")
    assert not is_newer("2024", "2024-07") and not is_newer("2024-07", "2024-07") and not is_newer("2023-12", "2024")
    for odd in ("May 2024", "2024-13", "24", "2024-07-32", ""):
        with pytest.raises(ConfigError, match="is no date"):
            is_newer(odd, "2024")


def test_items_newer_than_all_models_and_by_people_leave_nothing_open() -> None:
    assert check_origin("fresh", "2026-05", "people", LLAMA, QWEN | MISTRAL) == {"held_out": [], "undated": []}


@pytest.mark.parametrize("writer", ["llama", "Llama", "LLAMA3_8B"])
def test_items_by_the_tested_models_family_are_refused(writer: str) -> None:
    with pytest.raises(ConfigError, match="the family of the tested model llama3_8b"):
        check_origin("fresh", "2026-05", writer, LLAMA, QWEN)


def test_items_by_the_family_of_a_reference_are_named() -> None:
    (note,) = notes("fresh", "2026-05", "qwen", LLAMA, QWEN)
    assert "qwen2_5_7b" in note


def test_items_newer_than_the_tested_model_and_not_than_a_reference_are_refused() -> None:
    # written in August 2024: after llama3_8b (July), before qwen2_5_7b (September)
    with pytest.raises(ConfigError, match=r"newer than the tested model llama3_8b .* not than reference qwen2_5_7b"):
        check_origin("fresh", "2024-08", "people", LLAMA, MISTRAL | QWEN)
    assert notes("fresh", "2024-08", "people", LLAMA, MISTRAL) == []
    # and the other way round they may have been in the tested model's training
    (note,) = notes("fresh", "2024-08", "people", QWEN, LLAMA)
    assert "training" in note


def test_what_is_not_said_is_named_with_the_key_that_says_it() -> None:
    date, writer = notes("fresh", None, None, LLAMA, QWEN)
    assert "control_benchmark.date" in date and "control_benchmark.written_by" in writer
    (note,) = notes("fresh", "2026-05", "people", LLAMA, {"mine": Origin()})
    assert "model.mine.released" in note
    (note,) = notes("fresh", "2026-05", "qwen", {"mine": Origin("2025")}, {})
    assert "model.mine.family" in note


@pytest.mark.parametrize(
    ("date", "released", "reference", "undated"),
    [
        ("2024-08", "2024-07", "2024-05", False),  # new to both
        ("2024-06", "2024-07", "2024-05", False),  # not newer than the tested model: it makes no gap
        ("2024-06", "2024-07", None, False),
        ("2024-08", "2024-07", None, True),  # as new to the reference?
        ("2024-08", None, "2024-05", True),
        (None, "2024-07", "2024-05", True),
    ],
)
def test_a_gap_needs_items_that_are_no_newer_for_the_tested_model_alone(
    date: str | None, released: str | None, reference: str | None, undated: bool
) -> None:
    found = check_origin("fresh", date, "people", {"mine": Origin(released)}, {"other": Origin(reference)})
    assert found["undated"] == ["mine"] * undated


@pytest.mark.parametrize("dates", [("May", None, None), (None, "24", None), (None, None, "2024-13")])
def test_what_is_no_date_is_refused_alone_too(dates: tuple[str | None, ...]) -> None:
    date, tested, reference = dates
    with pytest.raises(ConfigError, match="is no date"):
        check_origin("fresh", date, "people", {"mine": Origin(tested)}, {"other": Origin(reference)})
