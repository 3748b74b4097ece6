"""CrowS-Pairs: shared tokens, shared words and the metric by hand; a masked model that is a table
of numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from published_items import items_of

from audit.benchmarks.items import LESS, MORE
from audit.core.errors import DataError, EngineLoadError
from audit.core.records import FinishReason, Generation, Item
from audit.engines.config import ModelConfig
from audit.engines.masked_engine import pair_scores
from audit.runtime.actors import EngineSpec, build_engine
from audit.scoring import pll
from audit.scoring.pll import NEITHER, read_full, read_mlm, read_shared
from audit.scoring.scored import scored_reply

PAIR = Item(
    "crows_pairs/0",
    "crows_pairs",
    "",
    ("The tall man ran home.", "The small man ran off."),
    MORE,
    "g",
    condition="stereo",
)


def scored(*values: float | None) -> Generation:
    return Generation(finish_reason=FinishReason.SCORED, option_logprobs=values)


def test_shared_tokens_leave_out_the_special_ones() -> None:
    assert pll.shared_positions([1, 10, 2], [1, 20, 2]) == ([], [])


def test_each_shared_token_is_masked_alone() -> None:
    seen: list[tuple[list[int], int]] = []

    def log_probs(sequences: list[list[int]], positions: list[int]) -> np.ndarray:
        seen.extend(zip(sequences, positions, strict=True))
        return np.array(
            [[-float(i) for i in range(30)] for _ in sequences]
        )  # token 11 costs 11 nats wherever it is

    # shared: 11 and 12 in both, so both cost 23
    assert pair_scores([1, 10, 11, 12, 2], [1, 20, 11, 12, 2], 3, log_probs) == (-23.0, -23.0)
    assert seen == [
        ([1, 10, 3, 12, 2], 2),
        ([1, 10, 11, 3, 2], 3),
        ([1, 20, 3, 12, 2], 2),
        ([1, 20, 11, 3, 2], 3),
    ]


def test_scores_are_compared_at_three_decimals_by_the_masked_reading_only() -> None:
    almost = scored(-10.0001, -10.0002)  # both are -10.000 at three decimals
    assert (read_mlm(PAIR, almost).response, read_mlm(PAIR, almost).score) == (NEITHER, 0.0)
    assert (read_full(PAIR, almost).response, read_full(PAIR, almost).score) == (MORE, 1.0)
    result = read_mlm(PAIR, scored(-10.001, -10.0))
    assert (result.response, result.score) == (LESS, 0.0)


@pytest.mark.parametrize("values", [(-1.0, None), (-1.0, -math.inf), (math.nan, -1.0)])
def test_what_is_not_told_is_unread(values: tuple[float | None, float | None]) -> None:
    assert read_full(PAIR, scored(*values)).score is None
    assert read_mlm(PAIR, Generation(error="died", finish_reason=FinishReason.ERROR)).why == "error"
    with pytest.raises(DataError, match="1 logprobs for 2"):
        read_full(PAIR, scored(-1.0))


def test_the_words_in_common_are_runs_between_beginnings() -> None:
    # shared words: "The", "man ran"; beginnings of the first sentence end after The, tall, ran, and
    # at its end
    assert pll.ask_shared(PAIR).continuations == (
        "The",
        "The tall",
        "The tall man ran",
        "The tall man ran home.",
        "The",
        "The small",
        "The small man ran",
        "The small man ran off.",
    )
    # first: The -1, then man ran from -5 to -7, so -3; second: The -1, man ran from -9 to -10, so
    # -2: it is preferred
    read = read_shared(PAIR, scored(-1, -5, -7, -8, -1, -9, -10, -30))
    assert (read.detail["more"], read.detail["less"], read.response) == (-3.0, -2.0, LESS)
    # the likelihood of the whole sentence says the contrary: -8 against -30
    assert read_full(PAIR, scored(-8, -30)).response == MORE
    assert [read_shared(PAIR, pll.reply_shared(PAIR, r)).response for r in (MORE, LESS, None)] == [
        MORE,
        LESS,
        NEITHER,
    ]


def test_a_masked_model_without_weights_does_not_start() -> None:
    with pytest.raises(EngineLoadError, match="no resolved weights"):
        build_engine(
            EngineSpec(ModelConfig(name="bert", engine="masked_lm"), None, "bert/0", False, "")
        )


GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "crows"


def test_the_stored_pseudo_likelihoods_give_the_stored_metric(shared_data: Path) -> None:
    stored = json.loads((GOLDEN / "pll.json").read_text())
    items = items_of("crows_pairs", shared_data / "crows_pairs" / "crows_pairs_anonymized.csv")
    responses = [
        read_mlm(item, scored_reply(pair)).response
        for item, pair in zip(items, stored["pll"], strict=False)
    ]
    assert (len(responses), responses.count(NEITHER), responses.count(MORE)) == (
        stored["n"],
        stored["neutral"],
        stored["more"],
    )
