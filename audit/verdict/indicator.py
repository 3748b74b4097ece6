"""The figures of a verdict that are followed over versions of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Indicator:
    """A figure with its 95 % interval, all 0-1; None where not computed.

    against: names of the reference models that it is measured against: the same figure against others is another one.
    """

    name: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    against: tuple[str, ...] = ()
