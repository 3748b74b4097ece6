"""Hours and money by hand, the questions that a design needs, and the plan as JSON."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audit.config.base import load_group, load_model_config
from audit.config.command_line import compose_command
from audit.config.plan_cost import (
    CostConfig,
    PlannedCalls,
    Tokens,
    check_cost,
    check_priced,
    in_one_line,
    measured_pace,
    money_spent,
    planned_cost,
)
from audit.core.errors import ConfigError
from audit.engines.config import ModelConfig
from audit.shards.manifest import Manifest, fingerprint
from audit.sweep.audit import SCHEMA
from audit.sweep.config import SweepConfig, from_hydra

ROOT = Path(__file__).resolve().parents[2]
BIG = ModelConfig(name="big", engine="vllm", tensor_parallel_size=4, replicas=2)
TABLE = CostConfig(gpu_hour=2.0, throughput={"big": {"prompt": 1000, "generated": 100}})
# read 3.6e6 at 1,000/s and write 3.6e5 at 100/s: 7,200 s of one replica, an hour of two; 8 GPUs for
# it
ASKED = {"big": Tokens(3_600_000, 360_000)}


def test_hours_gpu_hours_and_money_by_hand() -> None:
    estimate = planned_cost(TABLE, ASKED, {"big": BIG})
    assert (estimate.hours, estimate.gpu_hours, estimate.money) == (1.0, 8.0, 16.0)
    shown = "\n".join(estimate.lines())
    assert "8 GPU-hours" in shown and "16.00  USD" in shown and "estimated 1,000 tokens/s" in shown
    few = planned_cost(
        TABLE, {"big": Tokens(3_600, 0)}, {"big": BIG}
    ).lines()  # 3.6 s, half of it on each replica
    assert few[0].split()[:6] == ["hours", "under", "0.01,", "under", "0.01", "GPU-hours"]


def test_two_models_take_turns_and_endpoints_are_paid_by_the_token() -> None:
    gate = ModelConfig(name="gate", engine="openai")
    cost = replace(TABLE, prices={"gate": {"prompt": 0.5, "generated": 2.0}})
    estimate = planned_cost(
        cost, {**ASKED, "gate": Tokens(2_000_000, 1_000_000)}, {"big": BIG, "gate": gate}
    )
    assert estimate.money == 16.0 + 2 * 0.5 + 1 * 2.0
    assert (
        estimate.hours is None and "gate" in estimate.basis
    )  # its tokens cost, its time is not known


def test_what_is_not_known_is_not_made_up() -> None:
    estimate = planned_cost(CostConfig(), ASKED, {"big": BIG})
    assert (estimate.hours, estimate.gpu_hours, estimate.money) == (None, None, None)
    assert "+cost.throughput.big=" in estimate.lines()[0]
    assert planned_cost(replace(TABLE, gpu_hour=None), ASKED, {"big": BIG}).money is None
    assert (
        planned_cost(
            CostConfig(), {"s": Tokens(9, 9)}, {"s": ModelConfig(name="s", engine="scripted")}
        ).lines()
        == []
    )


def test_the_pace_of_a_run_is_read_from_its_manifest(tmp_path: Path) -> None:
    counts = {"calls": 1, "prompt_tokens": 900, "cached_tokens": 100, "completion_tokens": 200}
    cost = {"big": {"direct": {"worker": counts}, "noisy_rewrite": {"router": counts}}}
    timings = {
        "big/first": {"load_s": 9.0, "generate_s": 8.0},
        "big/again": {"load_s": 9.0, "generate_s": 2.0},
    }
    config = {"model": {"big": {"engine": "vllm", "replicas": 2}}}
    Manifest(fingerprint="f", config=config, cost=cost, timings=timings).save(tmp_path)
    assert measured_pace(tmp_path) == {
        "big": 100.0
    }  # 2 x (900 - 100 + 200) tokens in 10 s, by two replicas
    estimate = planned_cost(
        replace(TABLE, measured=str(tmp_path)), {"big": Tokens(700_000, 20_000)}, {"big": BIG}
    )
    assert estimate.hours == 1.0 and estimate.gpu_hours == 8.0 and str(tmp_path) in estimate.basis
    more = replace(BIG, replicas=8)  # the same work for as many GPUs in less time
    faster = planned_cost(
        replace(TABLE, measured=str(tmp_path)), {"big": Tokens(700_000, 20_000)}, {"big": more}
    )
    assert faster.hours == 0.25 and faster.gpu_hours == 8.0
    # Killed, then resumed: the tokens of both attempts in the seconds of the last would be too fast
    # a pace.
    killed = {**timings, "big/first": {"load_s": 9.0}}
    for unfit in (
        Manifest(fingerprint="f", config=config, cost=cost, timings=killed),
        Manifest("f", {}),
    ):
        unfit.save(tmp_path)
        with pytest.raises(ConfigError, match="no model of that run has complete times"):
            measured_pace(tmp_path)


def test_rates_that_cannot_be_are_refused_and_none_decides_a_result() -> None:
    with pytest.raises(ConfigError, match=r"cost\.throughput\.m"):
        check_cost(CostConfig(throughput={"m": {"prompt": 0, "generated": 1}}))
    with pytest.raises(ConfigError, match=r"cost\.gpu_hour"):
        check_cost(CostConfig(gpu_hour=-1))
    with pytest.raises(ConfigError, match=r"cost\.prices\.m"):
        check_cost(CostConfig(prices={"m": {"prompt": -1, "generated": 1}}))
    first, other = ({"n": 1, "cost": {"gpu_hour": price}} for price in (1, 2))
    assert fingerprint(first, SCHEMA) == fingerprint(other, SCHEMA)


def test_the_shipped_table_is_of_all_models_that_ship() -> None:
    models = [load_model_config(path.stem) for path in (ROOT / "conf" / "model").glob("*.yaml")]
    computing = {model.name for model in models if model.engine == "vllm"}
    unknown = {
        "hubble_1b_standard",
        "hubble_1b_perturbed",
    }  # the rule is of models that a GPU is busy with
    assert set(load_group("cost", "default")["throughput"]) == computing - unknown


def test_the_plan_as_json(tmp_path: Path) -> None:
    overrides = ["model=scripted", "worker=llama3_8b", "n=50", "r=1", "cost.gpu_hour=3", "--json"]
    words = [sys.executable, "-m", "audit", "plan", *overrides]
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}

    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    (plan,) = document["plans"]
    assert (plan["questions"], plan["questions_needed"]) == (50, 658)
    # 50 questions x (3 clean + 2 noisy messages), and one answer more each for the original
    # question
    assert (
        plan["tokens"]["scripted"]["generated"] == 250 * 256
        and plan["tokens"]["llama3_8b"]["generated"] == 300 * 16
    )
    assert plan["cost"]["gpu_hours"] > 0 and plan["cost"]["money"] == pytest.approx(
        3 * plan["cost"]["gpu_hours"]
    )
    assert "llama3_8b" in "".join(document["failed"].values()) or document["failed"] == {}


def test_rates_are_added_on_the_command_line_as_the_messages_say() -> None:
    pace, price = "{prompt: 1000, generated: 100}", "{prompt: 0.5, generated: 2.0}"
    words = [f"+cost.throughput.llama3_8b={pace}", f"+cost.prices.openai_compatible={price}"]
    cost = from_hydra(
        compose_command("sweep", ["model=scripted", "cost.gpu_hour=2.0", *words], SweepConfig)
    ).cost
    assert planned_cost(cost, {"llama3_8b": ASKED["big"]}, {"llama3_8b": BIG}).money == 16.0
    assert cost.prices == {"openai_compatible": {"prompt": 0.5, "generated": 2.0}}
    with pytest.raises(ConfigError, match=r"cost\.prices\.m: \{'promt': 1\}"):
        check_cost(CostConfig(prices={"m": {"promt": 1}}))


@pytest.mark.parametrize(
    "word",
    [
        "+cost.prices.smollm2_135n={prompt: 1, generated: 2}",
        "++cost.throughput.smollm2_135n.prompt=1000",
        "+cost.prices={smollm2_135n: {prompt: 1, generated: 2}}",
    ],
)
def test_a_rate_of_no_known_model_is_refused(word: str) -> None:
    """Nothing would read it, and the plan would be of other prices than those meant."""
    table = "prices" if "prices" in word else "throughput"
    refused = rf"Unknown model of cost\.{table}: 'smollm2_135n'\. Did you mean 'smollm2_135m'\?"
    with pytest.raises(ConfigError, match=refused):
        compose_command("sweep", ["model=scripted", word], SweepConfig)


def test_a_rate_of_a_model_of_ones_own_is_read_and_a_table_of_ones_own_too(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "cost").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(
        "# @package model.my_8b\nname: my_8b\nengine: scripted\n"
    )
    (tmp_path / "cost" / "table.yaml").write_text(
        "prices: {another_of_mine: {prompt: 1, generated: 2}}\n"
    )
    search_path = f"hydra.searchpath=[file://{tmp_path}]"
    words = [search_path, "model=mine", "cost=table"]
    config = compose_command(
        "sweep", [*words, "+cost.prices.my_8b={prompt: 1, generated: 2}"], SweepConfig
    )
    assert set(config.cost.prices) == {"another_of_mine", "my_8b"}
    with pytest.raises(ConfigError, match="'mine'"):  # its file's name, by which no rate is read
        compose_command(
            "sweep", [*words, "+cost.prices.mine={prompt: 1, generated: 2}"], SweepConfig
        )
    shipped = load_group("cost", "default")["throughput"]
    words = [f"++cost.throughput.{name}.prompt=1" for name in shipped]
    config = compose_command("sweep", ["model=scripted", *words], SweepConfig)
    assert len(shipped) > 3 and all(config.cost.throughput[name]["prompt"] == 1 for name in shipped)


def test_money_spent_is_tokens_at_the_price_of_whoever_was_called() -> None:
    cost = CostConfig(
        prices={
            "gate": {"prompt": 1.0, "generated": 10.0},
            "worker": {"prompt": 2.0, "generated": 20.0},
        }
    )
    tokens = {
        "calls": 1,
        "cached_tokens": 0,
        "prompt_tokens": 1_000_000,
        "completion_tokens": 100_000,
    }
    used = {
        "gate": {
            "direct": {"worker": tokens},
            "noisy_rewrite": {"worker": tokens, "router": tokens},
        }
    }
    gate, other = (
        ModelConfig(name="gate", engine="openai"),
        ModelConfig(name="worker", engine="openai"),
    )
    # the model itself: 3 times 1 + 1; with another one as worker, that answers twice: 2 x (2 + 2) +
    # 2
    assert money_spent(cost, used, {"gate": gate}) == {"gate": 6.0}
    assert money_spent(cost, used, {"gate": other}) == {"gate": 10.0}
    assert money_spent(cost, {}, {}) == {}


def test_an_amount_needs_the_price_of_every_model() -> None:
    gate = ModelConfig(name="gate", engine="openai")
    check_priced(CostConfig(), gate)
    check_priced(CostConfig(max=5, prices={"gate": {"prompt": 1, "generated": 1}}), gate)
    check_priced(CostConfig(max=5), ModelConfig(name="s", engine="scripted"))
    with pytest.raises(ConfigError, match=r"\+cost\.prices\.gate="):
        check_priced(CostConfig(max=5), gate)
    with pytest.raises(ConfigError, match=r"cost\.max: 0"):
        check_cost(CostConfig(max=0))


def test_a_price_is_scaled_to_another_number_of_questions() -> None:
    known = planned_cost(TABLE, ASKED, {"big": BIG})
    plan = PlannedCalls("big", "b", 1000, ASKED["big"], known)
    # twice and half of an hour, of 16 USD and of 1,000 calls
    assert in_one_line([(plan, 2.0), (plan, 0.5)]).split(", ") == [
        "about 2,500 calls",
        "about 9,000,000 prompt tokens",
        "at most 900,000 generated",
        "2.5 hours",
        "at most 40.00 USD",
    ]
    unknown = PlannedCalls(
        "small", "b", 1000, ASKED["big"], planned_cost(CostConfig(), ASKED, {"big": BIG})
    )
    assert in_one_line([(plan, 1.0), (unknown, 1.0)]).endswith(
        "at most 16.00 USD, no price of small"
    )
    assert in_one_line([(unknown, 1.0)]).endswith("generated, no price of small")
