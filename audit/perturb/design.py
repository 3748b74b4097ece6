"""The arms of the perturbation audit and its design (pure). The level of a setting is which variant; 0: none."""

from enum import StrEnum

from audit.errors import ConfigError
from audit.records import Design, Part


class Arm(StrEnum):
    """In which words a question reaches the model."""

    ORIGINAL = "original"  # as published
    VARIANT = "variant"  # reworded


def make_design(num_variants: int, original_replicates: int) -> Design:
    """The original `original_replicates` times under other seeds (the noise floor), and the variants 1..num_variants.

    Each is a part of its own, so each is run again alone.
    """
    for name, count in (("num_variants", num_variants), ("original_replicates", original_replicates)):
        if count < 1:
            raise ConfigError(f"Invalid {name}: {count}. Expected a whole number of at least 1, such as {name}=3.")
    originals = (Part(Arm.ORIGINAL, (0,), k) for k in range(original_replicates))
    return Design((*originals, *(Part(Arm.VARIANT, (j,)) for j in range(1, num_variants + 1))))
