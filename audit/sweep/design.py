"""Define the arms of the sweep, its design and its thresholds, without I/O.

The level of a setting is its number of routers r. A *router set* is a part of the design that uses
one list of router messages for each question:

- With independent draws, each setting has a separate router set (song2026, section 3.2).
- With nested draws, all r of an arm share a router set, and r uses the first r messages.

All rows of a router set are computed and stored together.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.errors import ConfigError, check_counts
from audit.core.records import Design, Part, Setting
from audit.judging.result import Reason, because, sentences
from audit.judging.thresholds import Thresholds
from audit.sweep.texts import PRE_RUN_NOTES


class Arm(StrEnum):
    """Name the ways in which a question reaches the worker (song2026, section 4.2).

    The arm `direct` is an addition of this program.
    """

    DIRECT = "direct"  # the original question, without a router
    FORWARD_FULL = "forward_full"  # r=1: the clean baseline; r>1: the ensemble control
    NOISY_REWRITE = "noisy_rewrite"  # routers delete, rewrite and add noise


# In this arm, words are deleted at random, without routers. The level of a setting is the
# percentage of deleted words. No verdict uses this arm.
DELETED = "deleted"
WITHOUT_ROUTER = (Arm.DIRECT, DELETED)


class Draws(StrEnum):
    """Name the ways to draw the router messages of each r."""

    INDEPENDENT = "independent"  # each r has separate messages, as in the paper
    NESTED = "nested"  # each r uses the first r messages of one set


class Aggregator(StrEnum):
    """Name the ways in which the worker reads r messages (A_m of song2026, eq. 7)."""

    CONCATENATE = "concatenate"  # the worker reads all messages, in order
    SUMMARY = "summary"  # the worker reads a summary that the router's model writes, also at r=1
    VOTE = "vote"  # the worker answers each message; the most frequent answer counts


MAX_ROUTERS = 64
_RANGE = re.compile(r"^(\d+)(?:\.\.(\d+))?$")
_EXAMPLE = (
    "Expected '<first>..<last>' with 1 <= first <= last, a number, or a list, "
    "such as r=1..9, r=3 or 'r=[1,3,9]'."
)


def parse_routers(value: object) -> tuple[int, ...]:
    """Parse router counts.

    Parameters
    ----------
    value : object
        `1..9`, `3`, `[1,3,9]` or `1,3,9`.

    Returns
    -------
    tuple of int
        The counts, sorted and without repeats.

    Raises
    ------
    ConfigError
        If the value has another form, or exceeds MAX_ROUTERS.

    Examples
    --------
    >>> parse_routers("1..3,9")
    (1, 2, 3, 9)
    """
    parts = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    counts: set[int] = set()
    for part in ",".join(map(str, parts)).strip(" []").split(","):
        match = _RANGE.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise ConfigError(f"Invalid r: {value!r}. {_EXAMPLE}")
        # The check comes first, since a very long range would need too much memory.
        if last > MAX_ROUTERS:
            raise ConfigError(f"Invalid r: {value!r}. Expected at most {MAX_ROUTERS} routers.")
        counts.update(range(first, last + 1))
    return tuple(sorted(counts))


def parse_doses(value: object) -> tuple[int, ...]:
    """Parse the shares of words to delete.

    Parameters
    ----------
    value : object
        A list of shares (0 to below 1) that contains 0, or None.

    Returns
    -------
    tuple of int
        The shares as percentages, sorted; empty for None.

    Raises
    ------
    ConfigError
        For any other value.

    Examples
    --------
    >>> parse_doses([0, 0.1, 0.4])
    (0, 10, 40)
    """
    if value is None:
        return ()
    shares = value if isinstance(value, Sequence) else ()
    are_shares = all(type(share) in (int, float) and 0 <= share < 1 for share in shares)
    percentages = {round(100 * share) for share in shares} if are_shares else set()
    doses = tuple(sorted(percentages))
    if len(doses) < 2 or doses[0] != 0:
        raise ConfigError(
            f"Invalid dose: {value!r}. Expected shares of words to delete, all below 1, with 0 "
            "(the whole question). Example: 'dose=[0,.1,.2,.4,.6]'."
        )
    return doses


def n_messages(part: Part) -> int:
    """Return the number of router messages of a router set.

    Parameters
    ----------
    part : Part
        The router set.

    Returns
    -------
    int
        The largest level of the router set, since level r reads the first r messages.
    """
    return max(part.levels)


def not_run(settings: Sequence[Setting], *, referred: bool) -> list[Reason]:
    """List the controls that were not run.

    Parameters
    ----------
    settings : sequence of Setting
        The settings that were run.
    referred : bool
        Whether another model (the hint reference) also answered from the same messages.

    Returns
    -------
    list of Reason
        A reason for each missing control.
    """
    runs = Counter((s.arm, s.level) for s in settings)
    noisy, ensemble = set(), set()
    for arm, r in runs:
        if arm == Arm.NOISY_REWRITE:
            noisy.add(r)
        elif arm == Arm.FORWARD_FULL and r > 1:
            ensemble.add(r)
    absent = sorted(noisy - ensemble - {1})
    clean = runs[Arm.FORWARD_FULL, 1]
    repeated = any(runs[Arm.NOISY_REWRITE, r] > 1 for r in noisy)
    controls = (
        ((Arm.DIRECT, 0) not in runs, because("direct")),
        (absent, because("ensemble_at" if ensemble else "ensemble", routers=absent)),
        (clean < 2, because("clean_replicates", runs=clean)),
        (noisy and not repeated, because("noisy_replicates")),
        (noisy and not referred, because("hint_reference")),
    )
    return [reason for missing, reason in controls if missing]


def missing_controls(design: Design) -> tuple[str, ...]:
    """Return a sentence for each control that is missing from a design.

    Without these controls, the verdict on a gain is `gain_uncontrolled`.

    Parameters
    ----------
    design : Design
        The design of a run before it starts.

    Returns
    -------
    tuple of str
        The sentences; empty without a noisy arm.
    """
    if all(s.arm != Arm.NOISY_REWRITE for s in design.settings):
        return ()
    notes = []
    for reason in not_run(design.settings, referred=True):
        if reason.code in PRE_RUN_NOTES:
            notes.append(reason)
    return sentences(notes, PRE_RUN_NOTES)


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
    """Build the design of one sweep (song2026, sections 4.1-4.3).

    Parameters
    ----------
    routers : sequence of int
        Router counts.
    arms : sequence of Arm
        Arms to run.
    draws : Draws
        How the messages of each r are drawn.
    replicates : int
        The least number of runs of every arm.
    clean_replicates : int
        The least number of runs of the clean baseline (`forward_full` at r=1).
    ensemble_control : bool
        Whether `forward_full` is also run at every other r.
    direct_replicates : int
        The number of runs of `direct`.
    noisy_replicates : int
        The least number of runs of the noisy arm.
    doses : sequence of int
        Percentages of words that are deleted.

    Returns
    -------
    Design
        The router sets.

    Raises
    ------
    ConfigError
        If there is no arm to run, or a number of replicates is invalid.
    """
    check_counts(
        replicates=replicates, clean_replicates=clean_replicates, noisy_replicates=noisy_replicates
    )

    def router_sets(arm: Arm, levels: Sequence[int], replicate: int) -> list[Part]:
        if draws == Draws.NESTED:
            return [Part(arm, tuple(levels), replicate)]
        return [Part(arm, (r,), replicate) for r in levels]

    sets: list[Part] = []
    if Arm.DIRECT in arms:
        sets += [Part(Arm.DIRECT, (0,), k) for k in range(direct_replicates)]
    if Arm.FORWARD_FULL in arms:
        ensemble = tuple(r for r in routers if r > 1) if ensemble_control else ()
        for k in range(max(replicates, clean_replicates)):
            sets += router_sets(Arm.FORWARD_FULL, (1, *(ensemble if k < replicates else ())), k)
    if Arm.NOISY_REWRITE in arms:
        for k in range(max(replicates, noisy_replicates)):
            sets += router_sets(Arm.NOISY_REWRITE, routers, k)
    if doses:
        sets.append(Part(DELETED, tuple(doses)))
    if not sets:
        raise ConfigError(
            f"arms is empty. Expected one or more of: {', '.join(Arm)}. Example: 'arms=[direct,forward_full]'."
        )
    return Design(tuple(sets), kind=draws.value)


@dataclass(frozen=True)
class SweepThresholds(Thresholds):
    """Define the thresholds of the sweep.

    `conf/verdict/default.yaml` sets them and names their sources. A test checks that its values are
    equal to these defaults.
    """

    above_chance_standard_errors: float = 2.0
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
