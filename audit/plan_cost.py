"""Hours, GPU-hours and money of planned calls, from a table of throughput and prices (conf/cost) or a run's own pace.

Pure but for `measured_pace`, which reads a manifest. Upper bounds, as the tokens are: a plan counts generated tokens at
their limit and prompt tokens before prefix caching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from audit.engines.config import ModelConfig
from audit.errors import ConfigError
from audit.shards.manifest import Manifest

Tokens = tuple[int, int]  # to be read, and to be written at most


@dataclass
class Throughput:
    """Tokens a second of one replica, all its GPUs together: read, and written."""

    prompt: float = 0.0
    generated: float = 0.0


@dataclass
class CostConfig:
    """conf/cost. gpu_hour: price of one GPU for an hour. measured: directory of a run whose pace is taken.

    The prices of an endpoint's tokens are its model's (`price_per_million_input`, `..._output`).
    """

    gpu_hour: float | None = None
    currency: str = "USD"
    measured: str | None = None
    throughput: dict[str, Throughput] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCost:
    """hours: of all replicas side by side; None where no pace is known. money: None where no price is known.

    basis: where the figures come from; empty for a scripted model, which costs nothing.
    """

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
        if self.hours:
            on = "" if not self.gpu_hours else f", {self.gpu_hours:,.2g} GPU-hours"
            lines.append(f"  hours              {self.hours:>12,.2g}{on}  ({self.basis})")
        if self.money is not None:
            lines.append(f"  cost               {self.money:>12,.2f}  {self.currency} at most")
        return lines


def check_cost(cost: CostConfig) -> None:
    """ConfigError for a rate or a price that cannot be one."""
    if cost.gpu_hour is not None and cost.gpu_hour < 0:
        raise ConfigError(f"Invalid cost.gpu_hour: {cost.gpu_hour:g}. Expected a price of 0 or more, such as 2.5.")
    for name, rates in cost.throughput.items():
        if rates.prompt <= 0 or rates.generated <= 0:
            raise ConfigError(
                f"Invalid cost.throughput.{name}: {rates.prompt:g} and {rates.generated:g} tokens a second. Expected "
                f"both above 0, such as '+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'."
            )


def planned_cost(cost: CostConfig, calls: Sequence[tuple[ModelConfig, Tokens]]) -> PlannedCost:
    """The cost of one job's calls: the model of each role and its tokens. The roles take turns at the clock."""
    paces = {} if cost.measured is None else measured_pace(Path(cost.measured))
    hours: float | None = 0.0
    gpu_hours = money = 0.0
    priced, bases = True, []
    for model, (prompt, generated) in calls:
        name = model.name
        gpus = model.tensor_parallel_size * model.replicas if model.engine == "vllm" else 0
        seconds, basis = None, ""
        if model.engine == "scripted" or not prompt + generated:
            seconds = 0.0
        elif name in paces:
            seconds = (prompt + generated) / paces[name]
            basis = f"{name} at the pace of {cost.measured}: {paces[name]:,.0f} tokens/s"
        elif name in cost.throughput:
            rates = cost.throughput[name]
            seconds = (prompt / rates.prompt + generated / rates.generated) / model.replicas
            basis = f"{name}: estimated {rates.prompt:,.0f} tokens/s read, {rates.generated:,.0f} written"
        else:
            basis = (
                f"no pace is known of {name}: cost.measured=RUN_DIR of an earlier run, or "
                f"'+cost.throughput.{name}={{prompt: 20000, generated: 5000}}'"
            )
        bases += [basis] if basis and basis not in bases else []
        hours = None if seconds is None or hours is None else hours + seconds / 3600
        on_gpus = None if seconds is None else seconds / 3600 * gpus
        gpu_hours += on_gpus or 0.0
        if model.price_per_million_input is not None and model.price_per_million_output is not None:
            money += (prompt * model.price_per_million_input + generated * model.price_per_million_output) / 1e6
            bases += [] if bases else [f"{name} at its prices for a million tokens"]
        elif gpus and cost.gpu_hour is not None and on_gpus is not None:
            money += on_gpus * cost.gpu_hour
        elif model.engine != "scripted":
            priced = False
    return PlannedCost(
        hours, None if hours is None else gpu_hours, money if priced else None, cost.currency, "; ".join(bases)
    )


def measured_pace(run_dir: Path) -> dict[str, float]:
    """Tokens a second (read, without those from the prefix cache, and written) of each model of a finished run.

    Raises ConfigError where there is no run, or it was not timed.
    """
    manifest = Manifest.load(run_dir)
    paces = {}
    for name, arms in manifest.cost.items():
        spent = [t["generate_s"] for key, t in manifest.timings.items() if key.rpartition("/")[0] == name]
        tokens = sum(
            role["prompt_tokens"] - role["cached_tokens"] + role["completion_tokens"]
            for roles in arms.values()
            for role in roles.values()
        )
        if tokens and sum(spent) > 0:
            paces[name] = tokens / sum(spent)
    if not paces:
        raise ConfigError(
            f"cost.measured={run_dir}: that run has no finished model with a time. Expected a finished run."
        )
    return paces
