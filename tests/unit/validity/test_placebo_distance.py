"""Placebo against attribute edits: as far from the original in words, and what a model's own tokenizer says of that."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scripted_models as models
from tokenizers import Tokenizer
from tokenizers.models import BPE
from validity_runs import edits_of

from audit.benchmarks.items import ContrastFacts
from audit.engines.config import ModelConfig
from audit.engines.weights import Weights
from audit.errors import ShardError
from audit.records import Item
from audit.validity.edits.file import (
    TOKENS_FILE,
    EditFile,
    as_array,
    distances,
    read_token_distances,
    write_token_distances,
)
from audit.validity.edits.surface import distance
from audit.validity.evidence import measure

# Two attribute edits: one word of six, and three of six.
ITEM = Item(
    "contrast/1", "contrast", "What does the old dog eat?", ("Hay.", "Bones.", "Stones."), 1, "contrast/1",
    condition="fact", facts=ContrastFacts((), (("What does the old cow eat?", 0), ("What might this old pig eat?", 0))),
)  # fmt: skip


@pytest.fixture(scope="module")
def edits(tmp_path_factory: pytest.TempPathFactory) -> EditFile:
    return edits_of(tmp_path_factory.mktemp("edits"), [ITEM], "contrast", spares=0)


def test_distance_by_hand():
    assert distance("abcdef", "abcdef") == (0, 0)
    assert distance("abcdef", "aXcdeYZ") == (3, 6)  # one and two replaced, three between them
    assert distance("abc", "xyabc") == (2, 2)


def test_the_placebo_has_as_many_words_as_the_attribute_edits_on_average(edits: EditFile) -> None:
    # Changed: 1 and 3, so 2; spans 1 and 4 ("might this old pig").
    assert distances(edits) == {"contrast/1": [2.0, 2.0, 2.0, 2.5]}


def test_each_model_s_tokenizer_is_asked_and_a_file_that_is_damaged_is_refused(edits: EditFile, tmp_path: Path) -> None:
    """A tokenizer of single letters: "Now then, " has ten of them; "dog" to "cow" changes two or three."""
    folder = tmp_path / "model"
    folder.mkdir()
    texts = "".join(edit.item.text for edit in edits.edits.values()) + ITEM.text
    Tokenizer(BPE({c: i for i, c in enumerate(sorted(set(texts)))}, [])).save(str(folder / "tokenizer.json"))
    resolved = SimpleNamespace(
        answering={name: ModelConfig(name=name, engine=engine, path=str(folder))
                   for name, engine in (("m", "vllm"), ("endpoint", "openai"))},
        weights={"m": Weights(str(folder), "sha256:0", None), "endpoint": None},
    )  # fmt: skip
    write_token_distances(tmp_path, resolved, edits)
    found = read_token_distances(tmp_path)
    assert set(found) == {"m"}
    placebo, attribute, span, _ = found["m"]["contrast/1"]
    assert placebo == span == len("Now then, ") and 2 <= attribute < 10
    (tmp_path / TOKENS_FILE).write_text("[]")
    with pytest.raises(ShardError, match="cannot be read"):
        read_token_distances(tmp_path)
    assert read_token_distances(tmp_path / "model") == {}


def test_the_difference_is_stated_for_the_items_that_have_both():
    one = models.cell(models.follower, n=30)
    found = {id_: [4.0, 5.0 if i % 2 else 3.0, 4.0, 9.0] for i, id_ in enumerate(one.question_ids) if i < 20}
    measured = replace(one, distances=as_array(found, one.question_ids), distance_unit="tokens")
    match = measure(measured, rng=np.random.default_rng(0), n_resamples=10).placebo_match
    assert match is not None and match.unit == "tokens" and match.changed.n == 20
    assert (match.placebo_changed, match.attribute_changed, match.attribute_span) == (4.0, 4.0, 9.0)
    assert match.changed.estimate == 0 and match.equal == 1.0 and match.span.estimate == -5.0
    assert measure(one, rng=np.random.default_rng(0), n_resamples=10).placebo_match is None
