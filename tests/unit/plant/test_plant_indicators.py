"""Indicators on made-up readings: what was planted is noticed, what was not is not."""

import json

import numpy as np
import pytest

from audit.perturb.record import BrokenShare
from audit.plant.indicators import (
    BY_NAME,
    Bench,
    findings,
    router_loss_pvalue,
    router_pvalue,
    split_alarms,
)
from audit.plant.measure import Reading
from audit.plant.words import markdown, plant_row

N = 120
LEARNT = np.arange(N) < 60
BENCH = Bench(tuple(f"q{i}" for i in range(N)), (4,) * N, LEARNT, BrokenShare(150, 0))
ALPHA = 0.01


def reading(rng, score=0.6, item=0.0, reworded=0.6, noisy=0.6, order=0.0) -> Reading:
    """A model that is better on what it learnt: score, reworded and noisy are accuracies there,
    item and order nats."""

    def right(p):
        return [float(x) for x in rng.random(N) < np.where(LEARNT, p, 0.6)]

    shards = {half: rng.normal(0, 1, (12, 5)) for half in ("learnt", "others")}
    shards["learnt"][:, 0] += order
    return Reading(
        correct={
            "score/0": (score_rows := right(score)),
            "original/0": score_rows,
            "direct/0": score_rows,
            **{f"variant/{k}": right(reworded) for k in (1, 2, 3)},
            "forward_full/1": right(noisy),
            "noisy_rewrite/1": right(noisy),
        },
        margin=list(rng.normal(np.where(LEARNT, 3 * (score - 0.6), 0), 1)),
        text={
            name: list(rng.normal(np.where(LEARNT, item, 0), 1))
            for name in ("item", "half", "wrong")
        },
        order={half: rows.tolist() for half, rows in shards.items()},
        options=rng.normal(0, 1, (N, 3)).tolist(),
    )


@pytest.fixture(scope="module")
def base():
    return reading(np.random.default_rng(1))


def noticed(model, base) -> set[str]:
    return {
        f.indicator
        for f in findings(BENCH, model, base, alpha=ALPHA, seed=1, n_splits=20)
        if f.noticed
    }


def test_answers_show_in_the_score_texts_in_likelihood_and_order_and_a_wording_as_a_drop(base):
    """Each learnt alone shows in no indicator of the others."""
    answers = reading(np.random.default_rng(12), score=0.99, reworded=0.99, noisy=0.99)
    assert noticed(answers, base) == {"gap", "margin"}
    texts = reading(np.random.default_rng(4), item=3.0, order=3.0)
    completions = {f"completion_{part}" for part in ("item", "half", "wrong")}
    assert noticed(texts, base) == {"item_likelihood", "order", *completions}
    wording = reading(np.random.default_rng(4), score=0.99, reworded=0.6)
    assert {"wording_drop", "wording_drop_beyond_reference"} <= noticed(wording, base)


def test_of_the_unspoilt_model_only_what_needs_no_reference_is_there(base):
    rows = findings(BENCH, base, base, alpha=ALPHA, seed=1, n_splits=20)
    assert [f.indicator for f in rows] == [
        "order",
        "options",
        "wording_drop",
        "router_gain",
        "router_loss",
        "item_likelihood",
    ]
    assert not any(f.noticed for f in rows)


def test_every_finding_says_how_often_it_is_wrong_where_nothing_was_learnt(base):
    model = reading(np.random.default_rng(5), score=0.99)
    for finding in findings(BENCH, model, base, alpha=0.05, seed=1, n_splits=200):
        assert finding.null == (
            "splits" if "held-out items" in BY_NAME[finding.indicator].needs else "other half"
        )
        assert 0 <= finding.false_alarms <= (0.09 if finding.null == "splits" else 1.0), (
            finding.indicator
        )
        assert finding.sd > 0 or finding.indicator in (
            "order",
            "options",
        )  # NaN there: no item has a value


def test_splits_of_two_kinds_of_items_are_not_called_different():
    rng = np.random.default_rng(1)
    values = np.repeat(
        [0.0, 5.0], 30
    )  # half of the items much easier than the others: no split knows which
    assert split_alarms("item_likelihood", values, None, 0.05, rng, 300) <= 0.09


@pytest.mark.parametrize(
    ("noisy", "clean", "direct", "gain", "loss"),
    [
        pytest.param(1.0, 0.0, 1.0, 1.0, 1.0, id="no gain over the original"),
        pytest.param(1.0, 0.0, 0.0, 0.5**20, 1.0, id="a gain over every control is no loss"),
        pytest.param(0.0, 1.0, 0.0, 1.0, 0.5**20, id="a fall from the clean message alone"),
    ],
)
def test_a_gain_has_to_hold_against_every_control(noisy, clean, direct, gain, loss):
    rows = {"noisy_rewrite/1": noisy, "forward_full/1": clean, "direct/0": direct}
    model, items = (
        Reading(correct={key: [value] * 20 for key, value in rows.items()}),
        np.ones(20, dtype=bool),
    )
    assert router_pvalue(model, ["noisy_rewrite/1"], items) == pytest.approx(gain)
    assert router_loss_pvalue(model, ["noisy_rewrite/1"], items) == pytest.approx(loss)


def test_the_data_file_is_plain_json_and_makes_the_table(base):
    model = reading(np.random.default_rng(6), score=0.99)

    def row(label, measured, audits):
        made = plant_row(
            BENCH, label, measured, base, 0.1, audits=audits, alpha=0.05, seed=1, n_splits=20
        )
        return json.loads(json.dumps(made, allow_nan=False))

    none, qa = (
        row(label, measured, ("memory", "perturb", "sweep"))
        for label, measured in (("base", base), ("qa-4", model))
    )
    assert (none["form"], none["passes"]) == ("none", 0)
    assert (qa["form"], qa["passes"]) == ("qa", 4) and set(qa["audits"]) == {
        "memory",
        "perturb",
        "sweep",
    }
    memory = qa["audits"]["memory"]
    # Holm over the memory audit's indicators: their number times the smallest p
    pvalues = [f["pvalue"] for f in qa["found"] if f["audit"] == "memory"]
    assert (
        memory["pvalue"] == pytest.approx(min(pvalues) * len(pvalues), abs=1e-6)
        and memory["noticed"]
    )
    # Rewordings are harder for the base model, too: a drop alone is no memory noticed.
    (beyond,) = (f["pvalue"] for f in qa["found"] if f["audit"] == "perturb")
    assert (
        qa["audits"]["perturb"]["pvalue"] == pytest.approx(beyond, abs=1e-6)
        and "perturb" not in none["audits"]
    )
    # The originals of the rewordings give the score gap as well: that is not the memory audit.
    assert set(row("qa-4", model, ("perturb",))["audits"]) == {"perturb"}
    sizes = {"learnt_items": 60, "other_items": 60}
    document = {
        "model": "m",
        "benchmark": "b",
        "audits": ["memory"],
        "alpha": 0.05,
        "plants": [none, qa],
        **sizes,
    }
    table = markdown(document).splitlines()
    assert len(table) == 2 + len(none["found"]) + len(qa["found"])
    assert all(line.count("|") == table[0].count("|") for line in table)
