"""The thresholds of the gates and statuses of this audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from audit.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class ValidityThresholds:
    """Shares, scores and changes are 0-1.

    alpha: of both directions together, over the panel. noop_share_max, parse_share_min, baseline_standard_errors,
    denominator_min: the paper's G1, G1, G2, G3. applicable_share_min: below it a family is withheld.
    margin: how much more than a surface edit an invariant attribute edit may move answers. follow_min: rate of followed
    contracts below which a cell that moves more under attribute edits is not selective. wrong_to_right_max: F5.
    """

    alpha: float = 0.05
    noop_share_max: float = 0.2
    parse_share_min: float = 0.95
    parse_drop_alpha: float = 0.001
    applicable_share_min: float = 0.8
    baseline_standard_errors: float = 2.0
    denominator_min: float = 0.02
    margin: float = 0.05
    follow_min: float = 0.5
    wrong_to_right_max: float = 0.9
    position_alpha: float = 0.001
    label_mass_min: float = 0.1
    replay_change_max: float = 0.05

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                raise ConfigError(
                    f"Threshold {field.name} is {value!r}; expected a number of at least 0, such as {field.default}."
                )
        if not 0 < self.alpha < 1:
            raise ConfigError(f"Threshold alpha is {self.alpha}; expected 0 < alpha < 1, such as 0.05.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, float]) -> ValidityThresholds:
        """From a config group. Raises ConfigError for a name that is not a threshold or a value outside its range."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name("threshold", name, known)
        return cls(**dict(values))

    def to_dict(self) -> dict[str, float]:
        """Every threshold by name."""
        return asdict(self)
