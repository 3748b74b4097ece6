"""The NLI adapter on a tiny classifier with random weights: order, labels, over-long pairs."""

import importlib.util
from pathlib import Path

import pytest
from tiny_nli import LABELS, MODULE, tiny

from audit.core.errors import ConfigError, EngineLoadError
from audit.engines.entailment import load_entailment


@pytest.fixture(autouse=True)
def needs_the_tokenizer() -> None:
    if importlib.util.find_spec(MODULE) is None:
        pytest.skip(f"{MODULE} is not installed")


def test_probabilities_in_the_order_asked(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    path = tiny(tmp_path, LABELS)
    pairs = [
        ("a dog barks", "an animal makes a sound, which is loud"),
        ("it rains", "it is dry"),
        ("x", "x"),
    ]
    pairs += [
        (second, first) for first, second in pairs[:2]
    ]  # the other direction is another question
    shares = load_entailment(path).entails(pairs)
    assert all(abs(forth - back) > 1e-4 for forth, back in zip(shares[:2], shares[3:], strict=True))
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(path),
        AutoTokenizer.from_pretrained(path),
    )
    for pair, share in zip(pairs, shares, strict=True):
        with torch.inference_mode():
            logits = model(**tokenizer(*pair, return_tensors="pt")).logits[0].double()
        expected = float(torch.exp(logits[2]) / torch.exp(logits).sum())  # label 2 of three
        assert share == pytest.approx(expected, abs=1e-5)


def test_an_over_long_pair_has_no_probability(tmp_path: Path) -> None:
    long = " ".join(["word"] * 40)
    first, second = load_entailment(tiny(tmp_path, LABELS)).entails([(long, long), ("a", "b")])
    assert first is None and second is not None


def test_a_classifier_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match="are positive, negative"):
        load_entailment(tiny(tmp_path, {0: "positive", 1: "negative"}))


def test_an_unknown_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nli adapter.*torch.*transformers"):
        load_entailment(tiny(tmp_path, LABELS), adapter="torch")
