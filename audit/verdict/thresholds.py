"""The thresholds of an audit's gates and verdicts, as `conf/verdict` sets them: what every audit's have in common."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from audit.errors import ConfigError, check_known

_EARLIER = {"brittle_drop_min": "fall_noted"}  # names that stored runs have


@dataclass(frozen=True)
class Limits:
    """Shares, accuracies and effects are 0-1; an audit adds its own. ConfigError for a value outside its range."""

    alpha: float = 0.05

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, str):  # a word, which its audit checks
                continue
            if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                raise ConfigError(
                    f"Threshold {field.name} is {value!r}; expected a number of at least 0, such as {field.default}."
                )
        for name in ("alpha", "power", "effect_of_interest"):
            if hasattr(self, name) and not 0 < getattr(self, name) < 1:
                raise ConfigError(f"Threshold {name} is {getattr(self, name)}; expected 0 < {name} < 1, such as 0.05.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """From a config group. Raises ConfigError for a name that is not a threshold or a value outside its range."""
        known = {f.name for f in fields(cls)}
        values = {_EARLIER.get(name, name): value for name, value in values.items()}
        for name in values:
            check_known("threshold", name, known)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Every threshold by name."""
        return asdict(self)


@dataclass(frozen=True)
class Thresholds(Limits):
    """Of an audit that finds an effect of some size."""

    power: float = 0.8
    effect_of_interest: float = 0.05
