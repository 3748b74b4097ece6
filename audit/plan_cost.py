"""Hours, GPU-hours and money of planned calls, from a table of throughput and prices (conf/cost) or a run's own pace.

Upper bounds: a plan counts generated tokens at their limit and prompt tokens before prefix caching.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.engines.config import ModelConfig
from audit.errors import ConfigError
from audit.records import ANSWER_ROLE

_ANSWERS = ("prompt_tokens", "completion_tokens")  # the answer's own; of calls before it <role>_prompt_tokens, ...
CHARS_PER_TOKEN = 4.0  # of English text; tokenizers differ by a fifth or so


@dataclass
class TokenRates:
    """Of prompt and of generated tokens: tokens a second of one replica, or the price of a million."""

    prompt: float = 0.0
    generated: float = 0.0


@dataclass
class CostConfig:
    """max: money at which a run stops. gpu_hour: price of one GPU for an hour. measured: directory of a run whose pace
    counts."""

    max: float | None = None
    gpu_hour: float | None = None
    currency: str = "USD"
    measured: str | None = None
    # {prompt, generated} by model, as `TokenRates`. A dataclass here could not be added to from the command line.
    throughput: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """What one model is to read and to write at most."""

    prompt: int
    generated: int


@dataclass(frozen=True)
class PlannedCost:
    """hours: of all replicas side by side; None where no pace is known. money: None where no price is known. basis:
    where the figures come from; empty for a scripted model, which costs nothing."""

    hours: float | None
    gpu_hours: float | None
    money: float | None
    currency: str
    basis: str

    def lines(self) -> list[str]:
        """As a plan prints it."""
        if not self.basis:
            return []
        if self.hours is None and self.money is None:
            return [f"  time, money                   ?  {self.basis}"]
        lines = []
        if self.hours is not None:
            on = "" if not self.gpu_hours else f", {_few(self.gpu_hours)} GPU-hours"
            lines.append(f"  hours              {_few(self.hours):>12}{on}  ({self.basis})")
        if self.money is not None:
            lines.append(f"  cost               {self.money:>12,.2f}  {self.currency}, at the prices in cost")
        return lines


def _few(hours: float) -> str:
    return f"{hours:,.2g}" if hours >= 0.01 or hours == 0 else "under 0.01"


@dataclass(frozen=True)
class PlannedCalls:
    """What one audit would ask of one model on one benchmark. Tokens: read before prefix caching, written at most."""

    model: str
    benchmark: str
    calls: int
    tokens: Tokens
    cost: PlannedCost

    def lines(self) -> list[str]:
        """Tokens and cost, as a plan prints them."""
        return [
            f"  prompt tokens      {self.tokens.prompt:>12,}  estimated, before prefix caching",
            f"  generated tokens   {self.tokens.generated:>12,}  at most",
            *self.cost.lines(),
        ]


def in_one_line(every: Sequence[tuple[PlannedCalls, float]]) -> str:
    """Calls, tokens, hours and money of several plans in one line; each counts by its share of the questions."""

    def total(values: Sequence[float | None]) -> float | None:
        known = [value * share for value, (_, share) in zip(values, every, strict=True) if value is not None]
        return sum(known) if len(known) == len(values) else None

    plans = [plan for plan, _ in every]
    hours, money = total([p.cost.hours for p in plans]), total([p.cost.money for p in plans])
    numbers = [total([p.calls for p in plans]), total([p.tokens.prompt for p in plans])]
    told = [f"about {count or 0:,.0f} {what}" for count, what in zip(numbers, ("calls", "prompt tokens"), strict=True)]
    told.append(f"at most {total([p.tokens.generated for p in plans]) or 0:,.0f} generated")
    told += [] if hours is None else [f"{_few(hours)} hours"]
    told.append("cost not known" if money is None else f"at most {money:,.2f} {plans[0].cost.currency}")
    return ", ".join(told)


def money_spent(cost: CostConfig, used: Mapping[str, Any], answering: Mapping[str, ModelConfig]) -> dict[str, float]:
    """Money by audited model: its tokens at the prices of cost, cached ones in full. used: `shards.complete.run_cost`.
    answering: the model that answers, by the audited model's name."""
    found = dict.fromkeys(used, 0.0)
    for model, arms in used.items():
        for role, n in (one for arm in arms.values() for one in arm.items()):
            name = answering[model].name if role == ANSWER_ROLE else model
            tokens = Tokens(n["prompt_tokens"], n["completion_tokens"])
            found[model] += price(cost, name, answering[model], tokens, None) or 0.0  # none of a script: `check_priced`
    return found


def check_priced(cost: CostConfig, model: ModelConfig) -> None:
    """ConfigError where a run is to stop at an amount and what this model costs is not known."""
    if cost.max is not None and model.name not in cost.prices and model.engine != "scripted":
        raise ConfigError(
            f"cost.max={cost.max:g} counts tokens at their prices, and none is known of {model.name}. Expected the "
            f"prices of a million tokens, such as '+cost.prices.{model.name}={{prompt: 0.15, generated: 0.6}}'."
        )


def check_cost(cost: CostConfig) -> None:
    """ConfigError for an amount, a rate or a price that cannot be one."""
    if cost.max is not None and cost.max <= 0:
        raise ConfigError(f"Invalid cost.max: {cost.max:g}. Expected an amount above 0, such as cost.max=5.")
    if cost.gpu_hour is not None and cost.gpu_hour < 0:
        raise ConfigError(f"Invalid cost.gpu_hour: {cost.gpu_hour:g}. Expected a price of 0 or more, such as 2.5.")
    for name, given in cost.throughput.items():
        rates = _rates(f"cost.throughput.{name}", given)
        if rates.prompt <= 0 or rates.generated <= 0:
            raise ConfigError(
                f"Invalid cost.throughput.{name}: {rates.prompt:g} and {rates.generated:g} tokens a second. Expected "
                f"both above 0, such as '+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'."
            )
    for name, given in cost.prices.items():
        rates = _rates(f"cost.prices.{name}", given)
        if rates.prompt < 0 or rates.generated < 0:
            raise ConfigError(f"Invalid cost.prices.{name}: expected prices of 0 or more for a million tokens.")


def _rates(key: str, given: Any) -> TokenRates:
    """ConfigError for what is not a number for prompts and one for what is generated."""
    numbers = isinstance(given, Mapping) and all(isinstance(v, int | float) for v in given.values())
    if not numbers or set(given) != {"prompt", "generated"}:
        raise ConfigError(f"Invalid {key}: {given!r}. Expected such as '+{key}={{prompt: 20000, generated: 5000}}'.")
    return TokenRates(**given)


def planned_cost(cost: CostConfig, tokens: Mapping[str, Tokens], models: Mapping[str, ModelConfig]) -> PlannedCost:
    """The cost of one job's calls. tokens, models: by the name of the model that is called; they take turns."""
    paces = {} if cost.measured is None else measured_pace(Path(cost.measured))
    hours: float | None = 0.0
    gpu_hours = money = 0.0
    priced, bases = True, []
    for name, asked in tokens.items():
        model = models[name]
        gpus = model.tensor_parallel_size if model.engine == "vllm" else 0
        seconds = None
        if name in paces:
            pace = paces[name] * (1 if model.engine == "openai" else model.replicas)
            seconds = (asked.prompt + asked.generated) / pace
            bases.append(f"{name} at the pace of {cost.measured}: {pace:,.0f} tokens/s")
        elif model.engine == "scripted":
            seconds = 0.0
        elif name in cost.throughput:
            rates = _rates(f"cost.throughput.{name}", cost.throughput[name])
            seconds = (asked.prompt / rates.prompt + asked.generated / rates.generated) / model.replicas
            bases.append(f"{name}: estimated {rates.prompt:,.0f} tokens/s read, {rates.generated:,.0f} written")
        else:
            bases.append(
                f"no pace is known of {name}: cost.measured=RUN_DIR of an earlier run, or "
                f"'+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'"
            )
        hours = None if seconds is None or hours is None else hours + seconds / 3600
        gpu_hours += 0.0 if seconds is None else seconds / 3600 * gpus * model.replicas
        one = price(cost, name, model, asked, seconds)
        money, priced = money + (one or 0.0), priced and one is not None
    known = gpu_hours if hours is not None else None
    return PlannedCost(hours, known, money if priced else None, cost.currency, "; ".join(bases))


def price(cost: CostConfig, name: str, model: ModelConfig, tokens: Tokens, seconds: float | None) -> float | None:
    """Of one model's calls: at its prices of tokens, else of its GPUs for so long; None where neither is known."""
    if name in cost.prices:
        rates = _rates(f"cost.prices.{name}", cost.prices[name])
        return (tokens.prompt * rates.prompt + tokens.generated * rates.generated) / 1e6
    gpus = model.tensor_parallel_size * model.replicas if model.engine == "vllm" else 0
    if gpus and cost.gpu_hour is not None and seconds is not None:
        return seconds / 3600 * gpus * cost.gpu_hour
    return 0.0 if model.engine == "scripted" else None


def spent(
    cost: CostConfig, models: Mapping[str, tuple[ModelConfig, ModelConfig]], name: str, sums: Mapping[str, int],
    seconds: float,
) -> float | None:  # fmt: skip
    """Money so far of a model's rows; None where a price is not known. models: by name, the one that prepares and the
    one that answers. sums: of the rows' columns of tokens."""
    total = 0.0
    for called in {one.name: one for one in models[name]}.values():
        roles = [role for role, one in zip((False, True), models[name], strict=True) if one.name == called.name]
        own = {column: n for column, n in sums.items() if (column in _ANSWERS) in roles}
        prompt, generated = (sum(n for column, n in own.items() if column.endswith(end)) for end in _ANSWERS)
        one = price(cost, called.name, called, Tokens(prompt, generated), seconds)
        if one is None:
            return None
        total += one
    return total


def measured_pace(run_dir: Path) -> dict[str, float]:
    """Tokens a second (read, but for those from the prefix cache, and written) of one replica of each model of a run.
    Not of a model of which an attempt was interrupted: its rows count, its seconds are not known. ConfigError for a run
    without."""
    from audit.shards.manifest import Manifest  # here: it needs Arrow, and a refused override does not

    manifest = Manifest.load(run_dir)
    paces = {}
    for name, arms in manifest.cost.items():
        attempts = [t for key, t in manifest.timings.items() if key.rpartition("/")[0] == name]
        if not all("generate_s" in t for t in attempts):
            continue
        spent = sum(t["generate_s"] for t in attempts)
        tokens = sum(
            role["prompt_tokens"] - role["cached_tokens"] + role["completion_tokens"]
            for roles in arms.values()
            for role in roles.values()
        )
        if tokens and spent > 0:
            model = (manifest.config.get("model") or {}).get(name) or {}
            replicas = 1 if model.get("engine") == "openai" else model.get("replicas", 1)
            paces[name] = tokens / spent / replicas
    if not paces:
        raise ConfigError(
            f"cost.measured={run_dir}: no model of that run was timed from its first row to its last. Expected a "
            "finished run that was not interrupted."
        )
    return paces
