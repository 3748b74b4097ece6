"""The score without memory of a cell: its line, what it needs, and the items that are named."""

from dataclasses import replace

import numpy as np
import pytest
from memory_cells import cell

from audit.judge.record import Settings
from audit.memory.analyse import analyse
from audit.memory.result import ranked, ranked_csv
from audit.memory.thresholds import MemoryThresholds
from audit.records import Question


def of(made):
    (result,) = analyse([made], Settings(MemoryThresholds(), 3, 199))
    return result


def test_the_headline_begins_with_score_and_score_without_memory():
    made = cell(n=600, fresh=400, answers=0.5)
    result = of(made)
    found = result.without.found
    assert result.headline.startswith(result.without.sentence)
    assert result.without.said.code == "without" and result.without.said.numbers["references"] == 3
    assert result.without.said.numbers["score"].estimate == made.tested[0].score.mean()
    assert found.without.high < found.score.estimate  # half of the answers is seen
    assert found.share.low < 0.5 < found.share.high
    assert found.alone.high - found.alone.low > found.without.high - found.without.low


@pytest.mark.parametrize(("made", "needs"), [
    ({"fresh": 0, "references": 0}, ("held_out", "references")),
    ({"fresh": 0}, ("held_out",)),
    ({"references": 0}, ("references",)),
])  # fmt: skip
def test_without_held_out_items_or_references_it_is_not_identified(made, needs):
    without = of(cell(**made)).without
    assert without.found is None and without.items is None
    assert without.said.code == "not_identified" and without.needs == needs
    assert without.score.low < without.score.estimate < without.score.high


def some_lost(score):
    """One in fifteen, whatever it was."""
    return np.where(np.arange(score.size) % 15 == 0, np.nan, score)


def test_unparsed_answers_widen_it():
    made = cell(n=600, fresh=400)
    lost = replace(made, tested=tuple(replace(one, score=some_lost(one.score)) for one in made.tested))
    one, other = of(made).without.found, of(lost).without.found
    assert other.without.high - other.without.low > one.without.high - one.without.low


def test_items_are_ranked_and_those_of_a_text_that_was_read_are_named():
    made = cell(n=400, fresh=300)
    own, read = made.tested[0], np.arange(400) < 80
    texts = {**own.texts, "item": own.texts["item"] + 3.0 * read}
    result = of(replace(made, tested=(replace(own, texts=texts, score=np.where(read, 1.0, own.score)), made.tested[1])))
    questions = {("exam", id_): Question(id_, "exam", f"Stem {id_}\nmore", ("a", "b"), 0, id_)
                 for id_ in made.published.question_ids}  # fmt: skip
    rows = ranked(made, result, questions)
    named = [int(r.question_id) for r in rows if r.named]
    assert len(rows) == 400
    assert len(named) > 40 and np.mean([i < 80 for i in named]) > 0.8
    assert [r.named for r in rows] == sorted((r.named for r in rows), reverse=True)
    assert rows[0].stem == f"Stem {rows[0].question_id}" and rows[0].right.endswith(" of 3")
    assert len(ranked_csv(rows).splitlines()) == 401
