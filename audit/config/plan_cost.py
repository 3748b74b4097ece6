"""Compute hours, GPU-hours and money of planned calls.

Hours and prices are computed from a table of throughputs and prices (conf/cost), or from the pace
of an earlier run. The results are upper bounds: a plan counts generated tokens at their limit, and
prompt tokens before prefix caching.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError
from audit.core.records import ANSWER_ROLE
from audit.engines.config import ModelConfig

# These are the columns of the answering model. Columns of other roles begin with the role's name,
# such as <role>_prompt_tokens.
_ANSWERS = ("prompt_tokens", "completion_tokens")
CHARS_PER_TOKEN = 4.0  # This is the average of English text. Tokenizers differ by a fifth.


@dataclass
class CostConfig:
    """Define the options of cost.

    Attributes
    ----------
    max : float or None
        The amount of money at which a run stops.
    gpu_hour : float or None
        The price of one GPU for an hour.
    currency : str
        The currency of all prices.
    measured : str or None
        The directory of an earlier run, whose pace (tokens per second) is used.
    throughput, prices : dict
        Rates by model, each with the keys prompt and generated. A throughput is the number of
        tokens per second of one replica. A price is for a million tokens.
    """

    max: float | None = None
    gpu_hour: float | None = None
    currency: str = "USD"
    measured: str | None = None
    # These are dicts, because the command line cannot add keys to a dataclass.
    throughput: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Hold the number of tokens that one model reads, and the largest number of tokens that it
    writes."""

    prompt: int
    generated: int


@dataclass(frozen=True)
class PlannedCost:
    """Hold the cost of planned calls.

    Attributes
    ----------
    hours, gpu_hours : float or None
        The duration of the run in hours, and the sum of the hours of all its GPUs. None if the pace
        is unknown.
    money : float or None
        The price. None if a price is unknown.
    currency : str
        The currency of the price.
    basis : str
        The source of the numbers. It is "" for a scripted model, which costs nothing.
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
    """Hold the planned calls of one audit to one model on one benchmark."""

    model: str
    benchmark: str
    calls: int
    tokens: Tokens
    cost: PlannedCost

    def lines(self) -> list[str]:
        """Return the lines of tokens and cost that a plan prints."""
        return [
            f"  prompt tokens      {self.tokens.prompt:>12,}  estimated, before prefix caching",
            f"  generated tokens   {self.tokens.generated:>12,}  at most",
            *self.cost.lines(),
        ]


def in_one_line(every: Sequence[tuple[PlannedCalls, float]]) -> str:
    """Return a line with the total calls, tokens, hours and money of several plans.

    Each plan has a share of the questions, by which its counts are multiplied.
    """

    def total(name: str) -> float | None:
        summed = 0.0
        for plan, share in every:
            value = attrgetter(name)(plan)
            if value is None:
                return None
            summed += value * share
        return summed

    hours, money = total("cost.hours"), total("cost.money")
    unpriced = sorted({plan.model for plan, _ in every if plan.cost.money is None})
    known = sum(plan.cost.money * share for plan, share in every if plan.cost.money is not None)
    parts = [
        f"about {total('calls'):,.0f} calls",
        f"about {total('tokens.prompt'):,.0f} prompt tokens",
    ]
    parts.append(f"at most {total('tokens.generated'):,.0f} generated")
    parts += [] if hours is None else [f"{_few(hours)} hours"]
    currency = every[0][0].cost.currency
    if money is None:
        priced = f"at most {known:,.2f} {currency}, " if known else ""
        parts.append(f"{priced}no price of {' and '.join(unpriced)}")
    else:
        parts.append(f"at most {money:,.2f} {currency}")
    return ", ".join(parts)


def money_spent(
    cost: CostConfig, used: Mapping[str, Any], answering: Mapping[str, ModelConfig]
) -> dict[str, float]:
    """Return the money that each audited model has cost.

    Parameters
    ----------
    cost : CostConfig
        The prices. Cached tokens have the full price.
    used : mapping
        The tokens by model, as `shards.complete.run_cost` returns them.
    answering : mapping of str to ModelConfig
        The model that answers, by name of the audited model.

    Returns
    -------
    dict of str to float
        The money by audited model.
    """
    money = dict.fromkeys(used, 0.0)
    for model, arms in used.items():
        for arm in arms.values():
            for role, n in arm.items():
                name = answering[model].name if role == ANSWER_ROLE else model
                tokens = Tokens(n["prompt_tokens"], n["completion_tokens"])
                # A scripted model has no price (`check_priced`).
                money[model] += price(cost, name, answering[model], tokens, None) or 0.0
    return money


def check_priced(cost: CostConfig, model: ModelConfig) -> None:
    """Raise ConfigError if cost.max is set, but the price of a model is unknown."""
    if cost.max is not None and model.name not in cost.prices and model.engine != "scripted":
        raise ConfigError(
            f"cost.max is {cost.max:g}, and the prices of {model.name} are unknown. "
            "Expected the prices of a million tokens. "
            f"Example: '+cost.prices.{model.name}={{prompt: 0.15, generated: 0.6}}'."
        )


def check_cost(cost: CostConfig) -> None:
    """Raise ConfigError if a limit of money, a throughput or a price is invalid."""
    if cost.max is not None and cost.max <= 0:
        raise ConfigError(
            f"Invalid cost.max: {cost.max:g}. Expected an amount above 0, such as cost.max=5."
        )
    if cost.gpu_hour is not None and cost.gpu_hour < 0:
        raise ConfigError(
            f"Invalid cost.gpu_hour: {cost.gpu_hour:g}. Expected a price of 0 or more, such as 2.5."
        )
    for name in cost.throughput:
        rates = _rates(cost, "throughput", name)
        if min(rates) <= 0:
            raise ConfigError(f"Invalid cost.throughput.{name}: {rates}. Expected paces above 0.")
    for name in cost.prices:
        rates = _rates(cost, "prices", name)
        if min(rates) < 0:
            raise ConfigError(f"Invalid cost.prices.{name}: {rates}. Expected prices of 0 or more.")


def _rates(cost: CostConfig, table: str, name: str) -> tuple[float, float]:
    """Return the rates (prompt, generated) of a model.

    Raises ConfigError if the table lacks one of the two numbers.
    """
    given, key = getattr(cost, table)[name], f"cost.{table}.{name}"
    numbers = isinstance(given, Mapping) and all(isinstance(v, int | float) for v in given.values())
    if not numbers or set(given) != {"prompt", "generated"}:
        raise ConfigError(
            f"Invalid {key}: {given!r}. Expected a number for prompt and "
            f"one for generated. Example: '+{key}={{prompt: 20000, generated: 5000}}'."
        )
    return given["prompt"], given["generated"]


def planned_cost(
    cost: CostConfig, tokens: Mapping[str, Tokens], models: Mapping[str, ModelConfig]
) -> PlannedCost:
    """Return the cost of the calls of one job.

    Parameters
    ----------
    cost : CostConfig
        The prices and the paces.
    tokens, models : mapping
        Two mappings from the name of each called model: to its tokens, and to its configuration.
        The models run one after another.

    Returns
    -------
    PlannedCost
        The cost.
    """
    paces = {} if cost.measured is None else measured_pace(Path(cost.measured))
    times: list[float | None] = []
    money: list[float | None] = []
    gpu_hours, bases = 0.0, []
    for name, planned in tokens.items():
        model, seconds = models[name], None
        if name in paces:
            pace = paces[name] * (1 if model.engine == "openai" else model.replicas)
            seconds = (planned.prompt + planned.generated) / pace
            bases.append(f"{name} at the pace of {cost.measured}: {pace:,.0f} tokens/s")
        elif model.engine == "scripted":
            seconds = 0.0
        elif name in cost.throughput:
            read, written = _rates(cost, "throughput", name)
            seconds = (planned.prompt / read + planned.generated / written) / model.replicas
            bases.append(f"{name}: estimated {read:,.0f} tokens/s read, {written:,.0f} written")
        else:
            bases.append(
                f"the pace of {name} is unknown: set cost.measured=RUN_DIR of an earlier run, or "
                f"'+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'"
            )
            if model.engine == "openai" and name not in cost.prices:
                bases.append(
                    "the price is unknown: set "
                    f"'+cost.prices.{name}={{prompt: 0.15, generated: 0.6}}'"
                )
        times.append(seconds)
        gpu_hours += (seconds or 0.0) / 3600 * _gpus(model)
        money.append(price(cost, name, model, planned, seconds))
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
    """Return the price of one model's calls.

    Parameters
    ----------
    cost : CostConfig
        Prices and throughputs of the models.
    name : str
        The name of the model.
    model : ModelConfig
        The configuration of the model.
    tokens : Tokens
        The tokens of the calls.
    seconds : float or None
        The time of the calls. None if it is unknown.

    Returns
    -------
    float or None
        The price of the tokens, or of the hours of the GPUs if tokens have no price. None if both
        prices are unknown.
    """
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
    """Return the money that the rows of a model have cost.

    Parameters
    ----------
    cost : CostConfig
        Prices and throughputs of the models.
    models : mapping
        The model that prepares and the model that answers, by name of the audited model.
    name : str
        The name of the audited model.
    sums : mapping of str to int
        The total of each column with tokens, by name of the column.
    seconds : float
        The time of the run so far.

    Returns
    -------
    float or None
        The money. None if a price is unknown.
    """
    preparing, answering = models[name]
    prompt, generated = _ANSWERS
    counts: dict[str, Counter[str]] = {preparing.name: Counter(), answering.name: Counter()}
    for column, n in sums.items():
        called = answering if column in _ANSWERS else preparing
        for end in _ANSWERS:
            if column.endswith(end):
                counts[called.name][end] += n
    money = []
    for model in {preparing.name: preparing, answering.name: answering}.values():
        used = counts[model.name]
        tokens = Tokens(used[prompt], used[generated])
        money.append(price(cost, model.name, model, tokens, seconds))
    return None if None in money else sum(filter(None, money))


def measured_pace(run_dir: Path) -> dict[str, float]:
    """Return the pace of one replica of each model of a run, in tokens a second.

    Tokens from the prefix cache do not count. A model with an interrupted attempt is left out,
    because the seconds of that attempt are unknown.

    Parameters
    ----------
    run_dir : Path
        The directory of the run.

    Returns
    -------
    dict of str to float
        The pace by model.

    Raises
    ------
    ConfigError
        If no model with complete times is left.
    """
    # This import loads Arrow, and refused arguments must not wait for it.
    from audit.shards.manifest import Manifest

    manifest, paces = Manifest.load(run_dir), {}
    for name, arms in manifest.cost.items():
        seconds: float | None = 0.0
        for key, timing in manifest.timings.items():
            if key.rpartition("/")[0] == name and seconds is not None:
                seconds = seconds + timing["generate_s"] if "generate_s" in timing else None
        tokens = 0
        for roles in arms.values():
            for n in roles.values():
                tokens += n["prompt_tokens"] - n["cached_tokens"] + n["completion_tokens"]
        if tokens and seconds:
            model = (manifest.config.get("model") or {}).get(name) or {}
            replicas = 1 if model.get("engine") == "openai" else model.get("replicas", 1)
            paces[name] = tokens / seconds / replicas
    if not paces:
        raise ConfigError(
            f"cost.measured is {run_dir}, and no model of that run has complete times. "
            "Expected a finished run that was not interrupted."
        )
    return paces
