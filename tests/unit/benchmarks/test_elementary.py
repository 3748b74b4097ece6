"""The embedded benchmark: the properties that make it a fair default."""

from collections import Counter
from statistics import mean

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.rows import normalised
from audit.benchmarks.sample import draw_sample
from audit.records import Question


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return list(open_benchmark(BenchmarkConfig()).iter_questions())


def test_size_ids_domains_and_no_duplicates(questions: list[Question]) -> None:
    assert len(questions) == 208
    domains = Counter(q.id.split("/")[1] for q in questions)
    assert len(domains) >= 8 and min(domains.values()) >= 20
    assert all(q.id.startswith("elementary/") and q.group == q.id for q in questions)
    assert len({normalised(q.text).lower() for q in questions}) == 208
    benchmark = open_benchmark(BenchmarkConfig())
    assert benchmark.warnings == ()
    assert draw_sample(benchmark, 100).chance == 0.25


def test_gold_position_is_balanced(questions: list[Question]) -> None:
    assert Counter(q.gold for q in questions) == {0: 52, 1: 52, 2: 52, 3: 52}
    for domain in {q.id.split("/")[1] for q in questions}:
        counts = Counter(q.gold for q in questions if q.id.split("/")[1] == domain)
        assert max(counts[i] for i in range(4)) - min(counts[i] for i in range(4)) <= 2, domain


def test_options_are_short_and_of_one_kind(questions: list[Question]) -> None:
    for q in questions:
        assert len(set(q.options)) == 4
        assert max(len(option) for option in q.options) <= 16
        # A reply "B" must not be both a letter and an option.
        assert not any(len(option) == 1 and option.isalpha() for option in q.options)
        assert len({len(option.split()) for option in q.options}) == 1 or q.id.startswith("elementary/geography/"), q
        assert max(len(option.split()) for option in q.options) <= 3
        kinds = {(option[0].isupper(), option.isdecimal()) for option in q.options}
        assert len(kinds) == 1, q.options


def test_length_does_not_give_the_answer_away(questions: list[Question]) -> None:
    """Whoever always picks the longest (or the shortest) option, ties split, stays within 2 standard errors of 0.25.

    The standard error is sqrt(.25 * .75 / 208) = 0.030.
    """
    for pick in (max, min):
        hits = []
        for q in questions:
            extreme = pick(len(option) for option in q.options)
            ties = [i for i, option in enumerate(q.options) if len(option) == extreme]
            hits.append((q.gold in ties) / len(ties))
        assert abs(mean(hits) - 0.25) < 0.06
