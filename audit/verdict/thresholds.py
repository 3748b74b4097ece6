"""The thresholds of gates and verdicts. `conf/verdict/default.yaml` sets them and names the source of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from audit.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class Thresholds:
    """Shares, accuracies and gains are 0-1. The defaults here and in the yaml file are equal (a test compares them)."""

    alpha: float = 0.05
    power: float = 0.8
    effect_of_interest: float = 0.05
    above_chance_standard_errors: float = 2.0
    answered_share_min: float = 0.95
    clean_loss_max: float = 0.05
    lossy_share_max: float = 0.20
    noop_share_max: float = 0.20
    leak_share_max: float = 0.05
    noise_floor_alpha: float = 0.01
    run_sd_plausible: float = 0.02
    pairing_z_min: float = 2.5
    pairing_questions_min: int = 30
    brittle_drop_min: float = 0.10
    credibility_high: float = 0.8
    credibility_moderate: float = 0.5

    @classmethod
    def from_mapping(cls, values: Mapping[str, float]) -> Thresholds:
        """From a config group. Raises ConfigError for a name that is not a threshold or a value outside its range."""
        known = {f.name for f in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise unknown_name("threshold", name, known)
            if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                raise ConfigError(f"Threshold {name} is {value!r}; expected a number of at least 0, such as 0.05.")
        made = cls(**dict(values))  # type: ignore[arg-type]
        for name in ("alpha", "power"):
            if not 0 < getattr(made, name) < 1:
                raise ConfigError(f"Threshold {name} is {getattr(made, name)}; expected 0 < {name} < 1, such as 0.05.")
        return made

    def to_dict(self) -> dict[str, float]:
        """Every threshold by name."""
        return asdict(self)
