"""Define what the thresholds of all audits share; `conf/verdict` sets them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from audit.core.errors import ConfigError, check_known

_LARGEST = 1_000_000  # far beyond every use, and its square is a number
_EARLIER = {"brittle_drop_min": "fall_noted"}  # earlier names of thresholds in stored runs


@dataclass(frozen=True)
class Limits:
    """Thresholds of an audit: shares, accuracies and effects, 0-1. Raises ConfigError for a value
    out of range.
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # The audit itself checks a threshold that is a word.
            if isinstance(field.default, str):
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            # The comparison is false for NaN, with which no measurement would miss a threshold.
            if not (number and 0 <= value <= _LARGEST):
                raise ConfigError(
                    f"Threshold {field.name} is {value!r}; expected a number from 0 to {_LARGEST:,}, such as "
                    f"{field.default}."
                )
        for name in ("alpha", "power", "effect_of_interest"):
            if hasattr(self, name) and not 0 < getattr(self, name) < 1:
                raise ConfigError(
                    f"Threshold {name} is {getattr(self, name)}; expected 0 < {name} < 1, such as 0.05."
                )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Return the thresholds of a config group.

        Parameters
        ----------
        values : mapping
            Values by name.

        Returns
        -------
        Limits
            The defaults for names that are not given.

        Raises
        ------
        ConfigError
            If a name is not a threshold, or a value is out of range.
        """
        known = {f.name for f in fields(cls)}
        values = {_EARLIER.get(name, name): value for name, value in values.items()}
        for name in values:
            check_known("threshold", name, known)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return every threshold by name."""
        return asdict(self)


@dataclass(frozen=True)
class Thresholds(Limits):
    """Thresholds of an audit that looks for an effect of some size."""

    power: float = 0.8
    effect_of_interest: float = 0.05
    answered_share_min: float = 0.95
