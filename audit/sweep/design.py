"""The arms of the sweep, its design and its thresholds (pure): which settings run, which of them share router messages.

The level of a setting is its number of routers. A *router set*, a part of the design, is one set of router messages for
a question: with independent draws of each setting (song2026, section 3.2); with nested draws r uses the first r
messages of one set. All rows of a router set are computed and stored together.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.errors import ConfigError, check_counts
from audit.records import Design, Part, Setting
from audit.sweep.texts import FORETOLD
from audit.verdict.result import Reason, because, sentences
from audit.verdict.thresholds import Thresholds


class Arm(StrEnum):
    """How a question reaches the worker (song2026, section 4.2; `direct` is ours)."""

    DIRECT = "direct"  # the original question, no router
    FORWARD_FULL = "forward_full"  # routers transmit it whole; r=1 is the clean baseline, r>1 the ensemble control
    NOISY_REWRITE = "noisy_rewrite"  # routers delete, rewrite and add noise


DELETED = "deleted"  # no router: code deletes a share of the question's words (the level, in percent); never judged
WITHOUT_ROUTER = (Arm.DIRECT, DELETED)


class Draws(StrEnum):
    """Whether each r has router messages of its own (as in the paper) or uses the first r of one set."""

    INDEPENDENT = "independent"
    NESTED = "nested"


class Aggregator(StrEnum):
    """How the worker sees r messages (A_m of song2026, eq. 7, which the paper leaves open)."""

    CONCATENATE = "concatenate"  # all of them, in order
    SUMMARY = "summary"  # one message, into which the router's model summed them up; at r=1 too
    VOTE = "vote"  # each by itself; the option that most of the r answers name, of as many the first named


MAX_ROUTERS = 64
_RANGE = re.compile(r"^(\d+)(?:\.\.(\d+))?$")
_EXAMPLE = (
    "Expected '<first>..<last>' with 1 <= first <= last, a number, or a list, such as r=1..9, r=3 or 'r=[1,3,9]'."
)


def parse_routers(value: object) -> tuple[int, ...]:
    """`1..9`, `3`, `[1,3,9]` or `1,3,9` -> sorted router counts without repeats. ConfigError for anything else."""
    parts = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    found: set[int] = set()
    for part in ",".join(map(str, parts)).strip(" []").split(","):
        match = _RANGE.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise ConfigError(f"Invalid r: {value!r}. {_EXAMPLE}")
        if last > MAX_ROUTERS:  # before a range of that length is built
            raise ConfigError(f"Invalid r: {value!r}. At most {MAX_ROUTERS} routers are supported.")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_doses(value: object) -> tuple[int, ...]:
    """`[0,.1,.2,.4,.6]` -> (0, 10, 20, 40, 60), percents of words; null -> (). ConfigError for anything else."""
    if value is None:
        return ()
    shares = value if isinstance(value, Sequence) else ()
    numbers = all(type(one) in (int, float) and 0 <= one < 1 for one in shares)
    doses = tuple(sorted({round(100 * one) for one in shares})) if numbers else ()
    if len(doses) < 2 or doses[0] != 0:
        raise ConfigError(
            f"Invalid dose: {value!r}. Expected shares of words to delete, 0 (the whole question) among them and all "
            "below 1, such as 'dose=[0,.1,.2,.4,.6]'."
        )
    return doses


def n_messages(part: Part) -> int:
    """Router messages of a part: a router set. Each of its levels reads so many of the first; `direct` reads none."""
    return max(part.levels)


def not_run(settings: Sequence[Setting], *, referred: bool) -> list[Reason]:
    """The controls that were not run. referred: whether another model answered from the same messages."""
    runs = Counter((s.arm, s.level) for s in settings)
    noisy = sorted(r for arm, r in runs if arm == Arm.NOISY_REWRITE)
    ensemble = {r for arm, r in runs if arm == Arm.FORWARD_FULL} - {1}
    absent = [r for r in noisy if r > 1 and r not in ensemble]
    clean = runs[Arm.FORWARD_FULL, 1]
    repeated = any(runs[Arm.NOISY_REWRITE, r] > 1 for r in noisy)
    found = (
        ((Arm.DIRECT, 0) not in runs, because("direct")),
        (absent, because("ensemble_at" if ensemble else "ensemble", routers=absent)),
        (clean < 2, because("clean_replicates", runs=clean)),
        (noisy and not repeated, because("noisy_replicates")),
        (noisy and not referred, because("hint_reference")),
    )
    return [one for lacks, one in found if lacks]


def missing_controls(design: Design) -> tuple[str, ...]:
    """One sentence for each control that this design does not run and without which a gain stays `gain_uncontrolled`;
    none where there is no noisy arm."""
    noisy = any(s.arm == Arm.NOISY_REWRITE for s in design.settings)
    lacking = not_run(design.settings, referred=True) if noisy else ()
    return sentences((one for one in lacking if one.code in FORETOLD), FORETOLD)


def make_design(
    routers: Sequence[int],
    *,
    arms: Sequence[Arm] = tuple(Arm),
    draws: Draws = Draws.INDEPENDENT,
    replicates: int = 1,
    clean_replicates: int = 1,
    ensemble_control: bool = False,
    direct_replicates: int = 1,
    noisy_replicates: int = 1,
    doses: Sequence[int] = (),
) -> Design:
    """The settings of one audit (song2026, sections 4.1-4.3).

    `forward_full` at r=1 is the clean baseline, repeated max(replicates, clean_replicates) times, as the noisy arm is
    max(replicates, noisy_replicates) times. With `ensemble_control` it is also run at every other r of `routers`.
    doses: percents of words that are deleted.
    """
    check_counts(replicates=replicates, clean_replicates=clean_replicates, noisy_replicates=noisy_replicates)

    def of(arm: Arm, levels: Sequence[int], replicate: int) -> list[Part]:
        sets = [levels] if draws == Draws.NESTED else [[r] for r in levels]
        return [Part(arm, tuple(some), replicate) for some in sets]

    sets: list[Part] = []
    if Arm.DIRECT in arms:
        sets += [Part(Arm.DIRECT, (0,), k) for k in range(direct_replicates)]
    if Arm.FORWARD_FULL in arms:
        ensemble = tuple(r for r in routers if r > 1) if ensemble_control else ()
        for k in range(max(replicates, clean_replicates)):
            sets += of(Arm.FORWARD_FULL, (1, *(ensemble if k < replicates else ())), k)
    if Arm.NOISY_REWRITE in arms:
        for k in range(max(replicates, noisy_replicates)):
            sets += of(Arm.NOISY_REWRITE, routers, k)
    if doses:
        sets.append(Part(DELETED, tuple(doses)))
    if not sets:
        raise ConfigError(f"No arm to run. Expected some of: {', '.join(Arm)}.")
    return Design(tuple(sets), kind=draws.value)


@dataclass(frozen=True)
class SweepThresholds(Thresholds):
    """`conf/verdict/default.yaml` sets them and names the source of each; its values are the defaults here (a test)."""

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
    fall_noted: float = 0.10
    credibility_high: float = 0.8
    credibility_moderate: float = 0.5
