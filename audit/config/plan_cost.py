"""Compute hours, GPU-hours and money of planned calls, from a table of throughput and prices
(conf/cost) or a run's own pace.

The figures are upper bounds: a plan counts generated tokens at their limit, and prompt tokens
before prefix caching.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError
from audit.core.records import ANSWER_ROLE
from audit.engines.config import ModelConfig

_ANSWERS = ("prompt_tokens", "completion_tokens")  # else <role>_prompt_tokens, ...
CHARS_PER_TOKEN = 4.0  # of English text; tokenizers differ by a fifth or so


@dataclass
class CostConfig:
    """Hold the prices. max: money at which a run stops. gpu_hour: price of one GPU for an hour.
    measured: directory of a run whose pace is used."""

    max: float | None = None
    gpu_hour: float | None = None
    currency: str = "USD"
    measured: str | None = None
    # {prompt, generated} by model: tokens a second of one replica; the price of a million. (A
    # dataclass could not be added to from the command line.)
    throughput: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Hold the tokens that one model reads, and the most that it writes."""

    prompt: int
    generated: int


@dataclass(frozen=True)
class PlannedCost:
    """Hold the planned cost.

    hours: of all replicas side by side; None if no pace is known. money: None if no price is known.
    basis: the source of the figures; empty for a scripted model, which costs nothing.
    """

    hours: float | None
    gpu_hours: float | None
    money: float | None
    currency: str
    basis: str

    def lines(self) -> list[str]:
        """Return the lines that a plan prints."""
        if not self.basis:
            return []
        lines = []
        if self.hours is None and self.money is None:
            lines.append(f"  time, money                   ?  {self.basis}")
        if self.hours is not None:
            on = "" if not self.gpu_hours else f", {_few(self.gpu_hours)} GPU-hours"
            lines.append(f"  hours              {_few(self.hours):>12}{on}  ({self.basis})")
        if self.money is not None:
            lines.append(
                f"  cost               {self.money:>12,.2f}  {self.currency}, at the prices in cost"
            )
        return lines


def _few(hours: float) -> str:
    return f"{hours:,.2g}" if hours >= 0.01 or hours == 0 else "under 0.01"


@dataclass(frozen=True)
class PlannedCalls:
    """Hold the calls of one audit to one model on one benchmark. Tokens: read before prefix
    caching, and the most written."""

    model: str
    benchmark: str
    calls: int
    tokens: Tokens
    cost: PlannedCost

    def lines(self) -> list[str]:
        """Return tokens and cost as the lines that a plan prints."""
        return [
            f"  prompt tokens      {self.tokens.prompt:>12,}  estimated, before prefix caching",
            f"  generated tokens   {self.tokens.generated:>12,}  at most",
            *self.cost.lines(),
        ]


def in_one_line(every: Sequence[tuple[PlannedCalls, float]]) -> str:
    """Format calls, tokens, hours and money of several plans in one line; each counts by its share
    of the questions."""

    def total(name: str) -> float | None:
        found = [(attrgetter(name)(plan), share) for plan, share in every]
        return None if None in dict(found) else sum(value * share for value, share in found)

    hours, money = total("cost.hours"), total("cost.money")
    figures = [
        f"about {total('calls'):,.0f} calls",
        f"about {total('tokens.prompt'):,.0f} prompt tokens",
    ]
    figures.append(f"at most {total('tokens.generated'):,.0f} generated")
    figures += [] if hours is None else [f"{_few(hours)} hours"]
    figures.append(
        "cost not known" if money is None else f"at most {money:,.2f} {every[0][0].cost.currency}"
    )
    return ", ".join(figures)


def money_spent(
    cost: CostConfig, used: Mapping[str, Any], answering: Mapping[str, ModelConfig]
) -> dict[str, float]:
    """Return the money by audited model: its tokens at the prices of `cost`, cached ones in full.

    used: `shards.complete.run_cost`. answering: the model that answers, by the audited model's
    name.
    """
    found = dict.fromkeys(used, 0.0)
    for model, arms in used.items():
        for role, n in (one for arm in arms.values() for one in arm.items()):
            name = answering[model].name if role == ANSWER_ROLE else model
            tokens = Tokens(n["prompt_tokens"], n["completion_tokens"])
            found[model] += (
                price(cost, name, answering[model], tokens, None) or 0.0
            )  # none of a script: `check_priced`
    return found


def check_priced(cost: CostConfig, model: ModelConfig) -> None:
    """Raise ConfigError if a run is to stop at an amount, and the cost of this model is not known."""
    if cost.max is not None and model.name not in cost.prices and model.engine != "scripted":
        raise ConfigError(
            f"cost.max={cost.max:g} counts tokens at their prices, and none is known of {model.name}. Expected the "
            f"prices of a million tokens, such as '+cost.prices.{model.name}={{prompt: 0.15, generated: 0.6}}'."
        )


def check_cost(cost: CostConfig) -> None:
    """Raise ConfigError if an amount, rate or price is not valid."""
    if cost.max is not None and cost.max <= 0:
        raise ConfigError(
            f"Invalid cost.max: {cost.max:g}. Expected an amount above 0, such as cost.max=5."
        )
    if cost.gpu_hour is not None and cost.gpu_hour < 0:
        raise ConfigError(
            f"Invalid cost.gpu_hour: {cost.gpu_hour:g}. Expected a price of 0 or more, such as 2.5."
        )
    for table, name in [("throughput", one) for one in cost.throughput] + [
        ("prices", one) for one in cost.prices
    ]:
        if min(rates := _rates(cost, table, name)) < 0 or (table == "throughput" and 0 in rates):
            raise ConfigError(
                f"Invalid cost.{table}.{name}: {rates}. Expected a pace above 0, or prices of 0 or more."
            )


def _rates(cost: CostConfig, table: str, name: str) -> tuple[float, float]:
    """Return the rates of prompts and of generated tokens. Raises ConfigError unless each is a
    number."""
    given, key = getattr(cost, table)[name], f"cost.{table}.{name}"
    numbers = isinstance(given, Mapping) and all(isinstance(v, int | float) for v in given.values())
    if not numbers or set(given) != {"prompt", "generated"}:
        raise ConfigError(
            f"Invalid {key}: {given!r}. Expected such as '+{key}={{prompt: 20000, generated: 5000}}'."
        )
    return given["prompt"], given["generated"]


def planned_cost(
    cost: CostConfig, tokens: Mapping[str, Tokens], models: Mapping[str, ModelConfig]
) -> PlannedCost:
    """Return the cost of one job's calls. tokens, models: by the name of the called model; models
    run in turn."""
    paces = {} if cost.measured is None else measured_pace(Path(cost.measured))
    times: list[float | None] = []
    money: list[float | None] = []
    gpu_hours, bases = 0.0, []
    for name, asked in tokens.items():
        model, seconds = models[name], None
        if name in paces:
            pace = paces[name] * (1 if model.engine == "openai" else model.replicas)
            seconds = (asked.prompt + asked.generated) / pace
            bases.append(f"{name} at the pace of {cost.measured}: {pace:,.0f} tokens/s")
        elif model.engine == "scripted":
            seconds = 0.0
        elif name in cost.throughput:
            read, written = _rates(cost, "throughput", name)
            seconds = (asked.prompt / read + asked.generated / written) / model.replicas
            bases.append(f"{name}: estimated {read:,.0f} tokens/s read, {written:,.0f} written")
        else:
            bases.append(
                f"no pace is known of {name}: cost.measured=RUN_DIR of an earlier run, or "
                f"'+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'"
            )
        times.append(seconds)
        gpu_hours += (seconds or 0.0) / 3600 * _gpus(model)
        money.append(price(cost, name, model, asked, seconds))
    hours = None if None in times else sum(filter(None, times)) / 3600
    paid = None if None in money else sum(filter(None, money))
    return PlannedCost(
        hours, None if hours is None else gpu_hours, paid, cost.currency, "; ".join(bases)
    )


def _gpus(model: ModelConfig) -> float:
    return model.gpus * model.replicas if model.engine == "vllm" else 0


def price(
    cost: CostConfig, name: str, model: ModelConfig, tokens: Tokens, seconds: float | None
) -> float | None:
    """Return the price of one model's calls: of its tokens, else of its GPUs for these hours; None
    if neither is known."""
    if name in cost.prices:
        prompt, generated = _rates(cost, "prices", name)
        return (tokens.prompt * prompt + tokens.generated * generated) / 1e6
    if _gpus(model) and cost.gpu_hour is not None and seconds is not None:
        return seconds / 3600 * _gpus(model) * cost.gpu_hour
    return 0.0 if model.engine == "scripted" else None


def spent(
    cost: CostConfig,
    models: Mapping[str, tuple[ModelConfig, ModelConfig]],
    name: str,
    sums: Mapping[str, int],
    seconds: float,
) -> float | None:
    """Return the money spent on a model's rows; None if a price is not known. models: by name, the
    preparing and the answering one. sums: of the rows' token columns."""
    money = []
    for called in {one.name: one for one in models[name]}.values():
        roles = [
            role
            for role, one in zip((False, True), models[name], strict=True)
            if one.name == called.name
        ]
        own = {column: n for column, n in sums.items() if (column in _ANSWERS) in roles}
        prompt, generated = (
            sum(n for column, n in own.items() if column.endswith(end)) for end in _ANSWERS
        )
        money.append(price(cost, called.name, called, Tokens(prompt, generated), seconds))
    return None if None in money else sum(filter(None, money))


def measured_pace(run_dir: Path) -> dict[str, float]:
    """Return tokens a second of one replica of each model of a run: read (without the prefix cache)
    and written.

    Models with an interrupted attempt are left out: their rows count, and their seconds are not
    known. Raises ConfigError if no model is left.
    """
    from audit.shards.manifest import (
        Manifest,
    )  # here: it needs Arrow, and a refused override does not

    manifest, paces = Manifest.load(run_dir), {}
    for name, arms in manifest.cost.items():
        attempts = [t for key, t in manifest.timings.items() if key.rpartition("/")[0] == name]
        timed = all("generate_s" in t for t in attempts)
        seconds = sum(t["generate_s"] for t in attempts) if timed else 0.0
        roles = [role for found in arms.values() for role in found.values()]
        tokens = sum(
            r["prompt_tokens"] - r["cached_tokens"] + r["completion_tokens"] for r in roles
        )
        if tokens and seconds > 0:
            model = (manifest.config.get("model") or {}).get(name) or {}
            replicas = 1 if model.get("engine") == "openai" else model.get("replicas", 1)
            paces[name] = tokens / seconds / replicas
    if not paces:
        raise ConfigError(
            f"cost.measured={run_dir}: no model of that run was timed from its first row to its last. Expected a "
            "finished run that was not interrupted."
        )
    return paces
