"""Define the thresholds that all audits share; `conf/verdict` sets their values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from audit.core.errors import ConfigError, check_known

_LARGEST = 1_000_000  # Largest allowed threshold. The square of this number is finite.
_EARLIER = {"brittle_drop_min": "fall_noted"}  # names of thresholds in runs of earlier versions


@dataclass(frozen=True)
class Limits:
    """Hold thresholds of an audit. Shares, accuracies and effects are fractions between 0 and 1.

    The constructor raises ConfigError if a value is out of range.
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # A threshold that is a text is checked by its audit.
            if isinstance(field.default, str):
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            # The comparison is false for NaN, so NaN is refused. With NaN as threshold, every
            # measurement would pass.
            if not (number and 0 <= value <= _LARGEST):
                raise ConfigError(
                    f"Threshold {field.name} is {value!r}. Expected a number from 0 to "
                    f"{_LARGEST:,}. Example: {field.default}."
                )
        for name in ("alpha", "power", "effect_of_interest"):
            if hasattr(self, name) and not 0 < getattr(self, name) < 1:
                raise ConfigError(
                    f"Threshold {name} is {getattr(self, name)}. Expected 0 < {name} < 1. Example: "
                    "0.05."
                )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Return the thresholds with the values of a mapping.

        Parameters
        ----------
        values : mapping
            Value of each threshold by name, as in a config group.

        Returns
        -------
        Limits
            The thresholds. A threshold that is missing in the mapping has its default value.

        Raises
        ------
        ConfigError
            If a name is not that of a threshold, or if a value is out of range.
        """
        known = {f.name for f in fields(cls)}
        values = {_EARLIER.get(name, name): value for name, value in values.items()}
        for name in values:
            check_known("threshold", name, known)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the value of every threshold by its name.

        Returns
        -------
        dict
            Value of each threshold, from which `from_mapping` restores the thresholds.
        """
        return asdict(self)


@dataclass(frozen=True)
class Thresholds(Limits):
    """Hold the thresholds of an audit that tests for an effect of at least a given size."""

    power: float = 0.8
    effect_of_interest: float = 0.05
    answered_share_min: float = 0.95
