"""The thresholds of the sweep. `conf/verdict/default.yaml` sets them and names the source of each."""

from dataclasses import dataclass

from audit.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class SweepThresholds(Thresholds):
    """The defaults here and in the yaml file are equal (a test compares them)."""

    above_chance_standard_errors: float = 2.0
    answered_share_min: float = 0.95
    clean_loss_max: float = 0.05
    lossy_share_max: float = 0.20
    noop_share_max: float = 0.20
    leak_share_max: float = 0.05
    noise_floor_alpha: float = 0.01
    run_sd_plausible: float = 0.02
    finding_questions_min: int = 30
    pairing_z_min: float = 2.5
    pairing_questions_min: int = 30
    brittle_drop_min: float = 0.10
    credibility_high: float = 0.8
    credibility_moderate: float = 0.5
