"""Gates on what the routers wrote and the worker was sent."""

import numpy as np

from audit.statistics.paired import CellOutcomes
from audit.statistics.permutation import paired_test
from audit.statistics.values import average, replicates_of, runs_of
from audit.sweep.design import Arm
from audit.sweep.messages import TextMeasures
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.result import Gate, Rule


def clean_fidelity(cell: CellOutcomes, texts: TextMeasures | None, thresholds: SweepThresholds) -> Gate:
    """A clean router that loses the question lowers the baseline and manufactures gains.

    Fails when the clean arm (mean of its replicates) loses more than `clean_loss_max` against direct and more than
    chance explains (exact McNemar, or an exchange of runs where there are replicates, at alpha), or when more than
    `lossy_share_max` of the clean messages drop an option or the stem.
    number: the loss where that fails or is all there is, else the lossy share.
    """
    name, source = "clean_fidelity", "ours, after song2026 section 4.2; conf/verdict: clean_loss_max, lossy_share_max"
    numbers: dict[str, float] = {}
    parts: list[str] = []
    loss_fails = lossy_fails = False
    if replicates_of(cell, Arm.FORWARD_FULL, 1) and replicates_of(cell, Arm.DIRECT, 0):
        # All clean replicates: the baseline of the effect is their average, so its loss is too.
        direct, clean = runs_of(cell, Arm.DIRECT, (0,))[:, 0], runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
        difference = average(direct) - average(clean)
        if np.any(~np.isnan(difference)):
            loss = float(np.nanmean(difference))
            # A fixed seed: a gate is a function of the data alone (the exchange of runs draws, McNemar does not).
            p = paired_test(direct, clean, cell.cluster, rng=np.random.default_rng(0))
            numbers |= {"loss": loss, "loss_p": p, "loss_max": thresholds.clean_loss_max}
            loss_fails = loss > thresholds.clean_loss_max and p <= thresholds.alpha
            parts.append(f"clean answers {abs(loss):.3f} {'below' if loss > 0 else 'above'} direct (p={p:.2g})")
    items: tuple[str, ...] = ()
    if texts is not None and texts.clean_messages:
        share = texts.clean_lossy / texts.clean_messages
        numbers |= {
            "lossy_share": share,
            "lossy_share_max": thresholds.lossy_share_max,
            "without_stem": texts.clean_without_stem / texts.clean_messages,
            "without_option": texts.clean_without_option / texts.clean_messages,
        }
        lossy_fails = share > thresholds.lossy_share_max
        items = texts.lossy_ids
        parts.append(f"{share:.1%} of {texts.clean_messages} clean messages drop an option or the stem")
    if not parts:
        limit, why = thresholds.clean_loss_max, "Neither a direct arm nor clean messages are at hand."
        return Rule(name, limit, source).absent(why)
    by_loss = loss_fails or ("loss" in numbers and not lossy_fails) or "lossy_share" not in numbers
    failed = loss_fails or lossy_fails
    limit = thresholds.clean_loss_max if by_loss else thresholds.lossy_share_max
    return Rule(name, limit, source, always_items=True).checked(
        passed=not failed,
        number=numbers["loss" if by_loss else "lossy_share"],
        detail=(" and ".join(parts)).capitalize() + ".",
        advice="The clean router does not transmit the question: raise the router's max_tokens, mend its prompt or use "
        "a stronger router model; compare with direct meanwhile.",
        items=items,
        numbers=numbers,
    )


def manipulation_reached_worker(texts: TextMeasures | None, thresholds: SweepThresholds) -> Gate:
    """Share of noisy presentations that are the clean one: the very request, or the same text after normalisation."""
    source = "li2026, gate G1 (silent no-op rate below 20 %), on request_sha256 and text; conf/verdict: noop_share_max"
    rule = Rule("manipulation_reached_worker", thresholds.noop_share_max, source, always_items=True)
    if texts is None or not texts.noisy_presentations:
        return rule.absent("No worker prompt of a noisy presentation is at hand.")
    share = texts.noops / texts.noisy_presentations
    return rule.checked(
        passed=share < rule.threshold,
        number=share,
        detail=f"{share:.1%} of {texts.noisy_presentations} noisy presentations reached the worker as the clean text, "
        f"{texts.same_requests} as the very request of the clean baseline. "
        f"On average {texts.deleted or 0:.0%} of the question's words were gone "
        f"({texts.deleted_per_message or 0:.0%} in a single message) and {texts.added or 0:.0%} of its text was new.",
        advice="The routers did not rewrite, or their text was not used: read some noisy messages and "
        "the worker prompt that was sent, and raise the router's temperature or use a stronger router.",
        items=texts.noop_ids,
        numbers={
            "deleted": texts.deleted,
            "deleted_per_message": texts.deleted_per_message,
            "added": texts.added,
            "lost": texts.lost / texts.noisy_presentations,
            "same_request": texts.same_requests / texts.noisy_presentations,
        },
    )


def answer_leak(texts: TextMeasures | None, thresholds: SweepThresholds, options: bool = True) -> Gate:
    """Share of noisy router messages that state the gold option as the answer. Does not withhold: see `decide`."""
    source = "ours; routers are told not to answer (song2026, section 4.3); conf/verdict: leak_share_max"
    rule = Rule("answer_leak", thresholds.leak_share_max, source, always_items=True)
    if texts is None or not texts.messages_noisy:
        return rule.absent("No noisy router message is at hand.", withholds=False)
    if not options:
        told = "The questions have no options: whether a message states the answer is not looked for."
        return rule.absent(told, withholds=False)
    share = texts.leaking_noisy / texts.messages_noisy
    alone = texts.gold_only_kept / texts.options_to_keep if texts.options_to_keep else None
    return rule.checked(
        passed=share <= rule.threshold,
        number=share,
        detail=f"{share:.1%} of {texts.messages_noisy} noisy router messages state the right option as the answer; "
        f"{texts.stated_wrong / texts.messages:.1%} of all messages state a wrong one"
        + ("." if alone is None else f"; {alone:.1%} kept the right option and dropped every other."),
        advice="The routers answer instead of rewriting: trust only the figures without the questions "
        "concerned, and forbid answering more firmly in the router prompt.",
        withholds=False,
        items=texts.leak_ids,
        numbers={
            "all_messages": texts.leaking / texts.messages,
            "stated_wrong": texts.stated_wrong / texts.messages,
            "gold_only_kept": alone,
        },
    )
