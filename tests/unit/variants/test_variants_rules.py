"""Numbers out of text, and what the rules find, by hand."""

import time
from fractions import Fraction

import pytest

from audit.variants.rules import numbers_in, repeats, rule_findings, same_words


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("two and three", "2 3"),  # "and" joins within a number only
        ("which one of the one hundred", "100"),  # "one" alone is a pronoun
        ("twenty-three of 3 million", "23 3000000"),
        ("a hundred, three thousand and six", "100 3006"),
        ("two million three hundred thousand", "2300000"),
        ("two thirds of it, a third of that, the third day", "2/3 1/3"),
        ("50% or fifty per cent or fifty percent", "1/2"),
        ("five per day", "5"),
        ("twenty five three", "25 3"),
        ("twice as many, half, .5", "2 1/2"),
        ("x^5 + 3x^3 in Z_7", "5 3 7"),
        ("no number", ""),
    ],
)
def test_numbers_in(text: str, numbers: str) -> None:
    assert set(numbers_in(text)) == {Fraction(n) for n in numbers.split()}


def test_numbers_are_counted() -> None:
    assert numbers_in("3 and 3 and three")[Fraction(3)] == 3


@pytest.mark.parametrize(
    ("original", "text", "findings"),
    [
        ("How many eggs in 3 hours?", "How many eggs in four hrs?", ("numbers: 3 -> 4",)),
        ("She has 20 eggs.", "Twenty eggs are hers.", ()),
        ("It takes 5 km.", "It takes 5 miles.", ("units: kilometre -> mile",)),
        ("It costs $5.", "It costs 5 dollars.", ()),
        ("Which is not a mammal?", "Which is a mammal?", ("negations: 1 -> 0",)),
        ("Which can't fly?", "Which is unable to fly?", ()),
        ("All whales swim.", "Some whales swim.", ("quantifiers: all -> some",)),
        ("How many whales swim?", "What number of whales swim?", ()),
        ("Buy at least 2.", "Buy at most 2.", ("quantifiers: at least -> at most",)),
        ('He said "stop".', 'He said "go".', ("quoted: stop -> go",)),
        (
            "The opposite of hot is",
            'Which word is contrary to "hot"?',
            (),
        ),  # the word was there, without marks
        ("Which is it?", "Is it Paris?", ("options named: nothing -> Paris",)),
        ("Neither A nor option B", "option C", ("options named: B -> C", "negations: 2 -> 0")),
        ("He argued that:", "Answer: we live in it.", ("states an answer",)),
        ("He argued that:", "He held that:\nResponse: so it is.", ("states an answer",)),
        (
            "Minute and a half",
            "90 seconds",
            ("numbers: 1/2 -> 90", "units: minute -> second"),
        ),  # a legitimate one
    ],
)
def test_rule_findings(original: str, text: str, findings: tuple[str, ...]) -> None:
    assert rule_findings(original, text, ("Paris", "Rome")) == findings


def test_a_variant_of_empty_lines_is_read_in_a_moment() -> None:
    began = time.process_time()
    assert "states an answer" not in rule_findings("Who?", "Who?" + "\n" * 30_000 + "Well?")
    assert time.process_time() - began < 5


def test_same_words() -> None:
    assert same_words("“Ｗho” is it") == "who is it"
    assert same_words("What is 5!?") != same_words("What is 5?")  # a factorial is no mark


def test_repeats() -> None:
    earlier = {"who is it": "q#1"}
    assert repeats("IS IT?", "Is it", earlier) == "original"
    assert repeats("Who is it?", "Is it", earlier) == "q#1"
    assert repeats("Who was it?", "Is it", earlier) is None
