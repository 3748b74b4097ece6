"""Define the arms of the perturbation audit, its design and its thresholds.

The `level` of a setting is the number of the variant; 0 is the original. This module does no I/O.
"""

from dataclasses import dataclass
from enum import StrEnum

from audit.core.errors import ConfigError, check_counts, check_known
from audit.core.records import Design, Part
from audit.judging.ladder import BLOCK_AT
from audit.judging.thresholds import Thresholds
from audit.statistics.priors import DECIDE_AT, PRIORS, TauPrior


class Arm(StrEnum):
    """Name the kinds of wording of a question."""

    ORIGINAL = "original"  # the published wording
    VARIANT = "variant"  # another wording


def make_design(num_variants: int, original_replicates: int) -> Design:
    """Return the design, which consists of the variants and of repeated runs of the original.

    The repeated runs (replicates) show how much the answers differ from run to run.

    Parameters
    ----------
    num_variants : int
        Number of variants of each question.
    original_replicates : int
        Number of runs of the original, each with a different seed.

    Returns
    -------
    Design
        The design. Each replicate and each variant is a separate part, so that it can be run again
        alone.

    Raises
    ------
    ConfigError
        If a number is below 1.
    """
    check_counts(num_variants=num_variants, original_replicates=original_replicates)
    originals = [Part(Arm.ORIGINAL, (0,), k) for k in range(original_replicates)]
    variants = [Part(Arm.VARIANT, (j,)) for j in range(1, num_variants + 1)]
    return Design((*originals, *variants))


@dataclass(frozen=True)
class PerturbThresholds(Thresholds):
    """Define the thresholds of the perturbation audit.

    Attributes
    ----------
    above_chance_standard_errors : float
        The accuracy with the original wording must exceed the accuracy of guessing by this number
        of standard errors.
    answered_share_min : float
        Smallest allowed share of parsed answers (0-1).
    noop_share_max : float
        Largest allowed share of the requests for variants that equal another request (0-1).
    noise_floor_alpha : float
        Significance level of the test whose null hypothesis is that all runs of the original have
        the same accuracy.
    broken_share_max : float
        Largest allowed value of the upper limit of the share of broken variants (0-1).
    order_z_min, order_items_min : float, int
        Limits for `gates.order_of_items`, which checks that an id belongs to the same item in every
        arm: a number of standard errors, and a smallest number of items.
    curve_references_min : int
        Smallest number of references for the test against ConStat's performance curve.
    units_min : int
        Smallest number of independent items for a verdict.
    bracket_margin : float
        How far the tested model's accuracy on reworded items may lie outside the range of the
        references' accuracies (0-1).
    tau_prior : float
        Scale of the prior for how much models without memory differ in their loss from rewording. 0
        means no prior.
    unparsed_gamma : float
        Odds ratio that is used when unparsed answers are imputed against a finding.
    block_at : {"strong", "suggestive"}
        The weakest finding that blocks a gate.
    """

    above_chance_standard_errors: float = 2.0
    noop_share_max: float = 0.01
    noise_floor_alpha: float = 0.001
    broken_share_max: float = 0.10
    order_z_min: float = 2.5
    order_items_min: int = 30
    curve_references_min: int = 10
    units_min: int = 60
    bracket_margin: float = 0.03
    tau_prior: float = PRIORS["rewording"].scale
    unparsed_gamma: float = DECIDE_AT
    block_at: str = BLOCK_AT[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("verdict.block_at", self.block_at, BLOCK_AT)
        if self.unparsed_gamma < 1 or not self.tau_prior < 1:
            raise ConfigError(
                f"verdict.unparsed_gamma is {self.unparsed_gamma:g} and verdict.tau_prior is {self.tau_prior:g}. "
                "Expected unparsed_gamma of at least 1, and tau_prior below 1. "
                "Example: verdict.unparsed_gamma=3 verdict.tau_prior=0.03"
            )

    @property
    def prior(self) -> TauPrior | None:
        """Return the prior for how much models without memory differ in their loss from rewording.

        Returns
        -------
        TauPrior or None
            The prior with the source of its scale; None if the scale is 0.
        """
        if not self.tau_prior:
            return None
        known = PRIORS["rewording"]
        return known if self.tau_prior == known.scale else TauPrior(self.tau_prior)
