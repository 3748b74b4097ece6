"""The thresholds of the gates and verdicts of this audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from audit.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class MemoryThresholds:
    """Shares and scores are 0-1. matched_*: see `gates.fresh_matched`. *_min: fewer carry no test."""

    alpha: float = 0.05
    power: float = 0.8
    effect_of_interest: float = 0.10
    answered_share_min: float = 0.95
    matched_alpha: float = 0.01
    matched_share_min: float = 0.80
    exchangeable_alpha: float = 0.05
    references_min: int = 3
    shards_min: int = 10
    items_min: int = 20

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                raise ConfigError(
                    f"Threshold {field.name} is {value!r}; expected a number of at least 0, such as {field.default}."
                )
        for name in ("alpha", "power", "effect_of_interest"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(f"Threshold {name} is {getattr(self, name)}; expected 0 < {name} < 1, such as 0.05.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, float]) -> MemoryThresholds:
        """From a config group. Raises ConfigError for a name that is not a threshold or a value outside its range."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name("threshold", name, known)
        return cls(**dict(values))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, float]:
        """Every threshold by name."""
        return asdict(self)
