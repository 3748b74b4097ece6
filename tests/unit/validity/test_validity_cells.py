"""Rows of a run and its edits -> a cell: pairing, the rules that never read, the items of the
metric. No Ray."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from validity_runs import edits_of, row_of

from audit.benchmarks.items import BbqFacts, ToxigenFacts
from audit.benchmarks.rows import shuffled
from audit.core.records import Item
from audit.statistics.contracts import UNREAD
from audit.statistics.dif import GroupDif
from audit.validity.cells import _cell, small_table
from audit.validity.edits.file import EditFile
from audit.validity.edits.record import Family
from audit.validity.evidence import measure
from audit.validity.record import Cell


def toxigen(n: int, group: Callable[[int], str] = lambda i: "x") -> list[Item]:
    return [
        Item(
            f"toxigen/{i:03d}",
            "toxigen",
            f"A kind text {i}.",
            ("neutral", "hate"),
            i % 2,
            f"toxigen/{i:03d}",
            condition=("neutral", "hate")[i % 2],
            facts=ToxigenFacts((group(i),), 1.0),
        )
        for i in range(n)
    ]


def rows_of(edits: EditFile, respond: Any, mass: float | None = None) -> list[dict[str, Any]]:
    """One row an original and edit; `respond` gives the canonical response to an item as asked."""
    trials: list[Any] = [(item, "original", 0, None) for item in edits.items.values()]
    trials += [(edit.item, arm, level, edit) for (_, arm, level), edit in edits.edits.items()]
    return [
        row_of(edits.items[item.id], item, arm, level, edit, respond(item), label_mass=mass)
        for item, arm, level, edit in trials
    ]


def cell_of(edits: EditFile, rows: list[dict[str, Any]]) -> Cell:
    scorer = {
        "benchmark": rows[0]["benchmark"],
        "chance": dict.fromkeys(edits.items, 0.5),
        "name": "s",
    }
    return _cell(small_table([rows]), 2, scorer, edits)


@pytest.fixture(scope="module")
def truthful(tmp_path_factory: pytest.TempPathFactory) -> EditFile:
    """Of every second item the right answer alone has a negation word; it is never the longest."""
    items = [
        Item(
            f"truthfulqa/{i}",
            "truthfulqa",
            f"What about {i}?",
            (
                ("It is not so." if i % 2 else "It is so."),
                "It is quite otherwise, as all know.",
                "It may be, or so.",
            ),
            0,
            f"truthfulqa/{i}",
        )
        for i in range(12)
    ]
    return edits_of(
        tmp_path_factory.mktemp("t"), [shuffled(item, 3) for item in items], "truthfulqa_lettered"
    )


def test_g2_has_every_rule_that_never_reads_the_question(truthful: EditFile) -> None:
    cell = cell_of(truthful, rows_of(truthful, lambda item: 0))
    means = {name: float(values.mean()) for name, values in cell.shortcuts.items()}
    assert set(means) == {
        "the longest option",
        "the shortest option",
        "always the first shown",
        "an option with a negation word",
    }
    assert means["the longest option"] == 0 and means["the shortest option"] == 1
    # Six items in which the word tells, six without any such word, where one of three is drawn.
    assert means["an option with a negation word"] == pytest.approx((6 + 6 / 3) / 12)


def test_the_cell_has_the_items_in_the_order_of_its_ids(truthful: EditFile) -> None:
    rows = rows_of(truthful, lambda item: None if item.id.endswith("/3") else 0)
    cell = cell_of(truthful, rows[::-1])
    assert [item.id for item in cell.items] == list(cell.question_ids) == sorted(cell.question_ids)
    # Where the key is shown: as published it stands first in every item.
    assert (
        cell.key_position.tolist() == [item.gold for item in cell.items] and cell.key_position.any()
    )
    assert (cell.before == UNREAD).tolist() == [id_.endswith("/3") for id_ in cell.question_ids]
    assert not cell.mixed_up and np.isnan(cell.mass_before).all()


def test_rows_that_were_swapped_between_items_are_found(truthful: EditFile) -> None:
    """What G4 rests on, from rows: an item's row that holds another item's question, or its key."""
    for column, other in (("question", "What about another?"), ("key_before", 1)):
        rows = rows_of(truthful, lambda item: 0)
        victim = next(row for row in rows if row["arm"] != "original")
        victim[column] = other
        assert cell_of(truthful, rows).mixed_up == (victim["question_id"],)


@pytest.mark.parametrize(
    "change", [{}, {"request_sha256": "tokens:other"}, {"request_sha256": None}]
)
def test_an_original_that_is_another_request_when_it_is_sent_again_is_found(
    truthful: EditFile, change: dict[str, Any]
) -> None:
    """What F10 rests on, from rows; a row without a hash (an error) says nothing."""
    rows = rows_of(truthful, lambda item: 0)
    replays = [row | {"replicate": 1} for row in rows if row["arm"] == "original"]
    replays[0] |= change
    ids = cell_of(truthful, [*rows, *replays]).other_context
    assert ids == ((replays[0]["question_id"],) if change.get("request_sha256") else ())


def test_an_edit_that_consumed_the_tokens_of_its_original_is_a_no_op(truthful: EditFile) -> None:
    """What G1 rests on, from rows: the same hash as a replay of the same item, and of no other
    item."""
    rows = rows_of(truthful, lambda item: 0)
    assert not any(block.same.any() for block in cell_of(truthful, rows).families.values())
    originals = {
        row["question_id"]: row["request_sha256"] for row in rows if row["arm"] == "original"
    }
    first, second = [row for row in rows if row["arm"] == "format"][:2]
    first["request_sha256"] = originals[first["question_id"]]
    second["request_sha256"] = next(
        sha for id_, sha in originals.items() if id_ != second["question_id"]
    )
    cell = cell_of(truthful, rows)
    (block,) = [block for block in cell.families.values() if block.same.any()]
    assert [cell.question_ids[k] for k in np.nonzero(block.same)[1]] == [first["question_id"]]
    assert not block.tests[block.same].any()  # it tests nothing


def test_contract_following_is_told_by_group(tmp_path: Path) -> None:
    """A model that reads texts about one group and calls every text about another hateful."""
    edits = edits_of(
        tmp_path, toxigen(28, lambda i: "cats" if i < 14 else "dogs"), "toxigen_targeted"
    )
    rows = rows_of(edits, lambda item: item.key if item.id < "toxigen/014" else 1, mass=0.9)
    cell = cell_of(edits, rows)
    assert cell.mass_before.tolist() == [0.9] * 28 and cell.mass.size == len(rows) > 28
    assert set(cell.shortcuts) == {"always the commonest key"}
    assert cell.items[0].facts == ToxigenFacts(("cats",), 1.0)
    attribute = cell.families[Family.ATTRIBUTE]
    groups = measure(cell, rng=np.random.default_rng(0), n_resamples=10).groups
    by_group = {group.name: group for group in groups[Family.ATTRIBUTE]}
    assert set(by_group) == {"cats", "dogs"}
    assert by_group["cats"].followed.estimate == 1 and by_group["dogs"].followed.estimate < 0.6
    assert by_group["cats"].read + by_group["dogs"].read == int(attribute.tests.sum())


def test_a_group_whose_attribute_edits_fail_is_found_at_equal_total_score(tmp_path: Path) -> None:
    """Answers of known skill, alike in both groups; under attribute edits those of one group are
    wrong more often."""
    items = toxigen(192, lambda i: "cats" if i < 90 else "dogs" if i < 186 else "newts")
    edits = edits_of(tmp_path, items, "toxigen_targeted")
    rng = np.random.default_rng(2)
    skill = {item.id: rng.uniform(0.3, 1) for item in items}

    def cell_with(penalty: float) -> Cell:
        rows = rows_of(
            edits,
            lambda item: item.key if rng.random() < skill[item.id] else 1 - item.key,
            mass=0.9,
        )
        for row in rows:
            if (
                row["arm"] == "attribute"
                and row["question_id"] >= "toxigen/090"
                and rng.random() < penalty
            ):
                row["answer"] = 1 - row["key_after"]
        return cell_of(edits, rows)

    def difs(penalty: float) -> dict[str, GroupDif]:
        evidence = measure(cell_with(penalty), rng=np.random.default_rng(0), n_resamples=10)
        return {dif.group: dif for dif in evidence.group_dif}

    fair, unfair = difs(0.0), difs(0.6)
    assert (
        set(fair) == set(unfair) == {"cats", "dogs"} and fair["cats"].items == 90
    )  # six of newts are too few
    assert fair["dogs"].pvalue > 0.05 and fair["dogs"].table.low < 1 < fair["dogs"].table.high
    assert (
        unfair["dogs"].pvalue < 0.001
        and unfair["dogs"].table.low > 1
        and unfair["dogs"].table.delta < -1.5
    )
    assert unfair["cats"].table.odds_ratio < 1


def bbq(number: int, names: tuple[str, str], polarity: str) -> Item:
    a, b = names
    facts = BbqFacts(
        "Age",
        "1",
        number,
        polarity,
        2,
        None,
        ((a, "a"), (b, "b"), ("unknown", "unknown")),
        ("a",),
        "",
    )
    id_, group = f"bbq/Age/{number}", f"bbq/Age/group{number // 4}"
    return Item(
        id_,
        "bbq",
        f"Who was {polarity}?",
        (a, b, "Not known"),
        2,
        group,
        context=f"I saw {a} and {b}.",
        condition="ambig",
        facts=facts,
    )


def test_bbq_s_swapped_rows_are_one_cluster(tmp_path: Path) -> None:
    """Each is the other's edit. As two, UnifiedQA's answers (432 rows) called 12 % of exchanged
    pairs different."""
    old, young, other = "the old one", "the young one", "the child"
    swapped = [(0, (old, young)), (4, (young, old)), (8, (old, other)), (12, (other, old))]
    items = [
        bbq(start + k, names, ("neg", "nonneg")[k]) for start, names in swapped for k in (0, 1)
    ]
    edits = edits_of(tmp_path, items, "bbq_race")
    assert (
        edits.edits["bbq/Age/0", "attribute", 1].item.context
        == "I saw the young one and the old one."
    )
    cell = cell_of(edits, rows_of(edits, lambda item: item.key))
    assert set(cell.shortcuts) == {
        "the longest option",
        "the shortest option",
        "always the first shown",
    }
    pairs = [
        cell.cluster[list(cell.question_ids).index(f"bbq/Age/{k}")]
        for k in (0, 1, 4, 5, 8, 9, 12, 13)
    ]
    assert len(set(pairs[:4])) == len(set(pairs[4:])) == 1 and pairs[0] != pairs[4]
