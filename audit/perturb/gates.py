"""Check whether the measurement of a perturbation audit is valid.

A gate is one such check. It is computed for one cell (one model on one benchmark). If a gate with
`withholds=True` fails, the verdict is withheld. If `enough_data` fails, the verdict can become
`underpowered` (see `decide`).
"""

import numpy as np

from audit.core.number_text import percent, pvalue
from audit.judge.gates import CHANCE_SOURCE, READ_ADVICE, agreement, log_checks, reached_model
from audit.judge.gates import above_chance as chance_gate
from audit.judge.gates import exact_values as exact
from audit.judging.result import Gate, Rule, ids_where, sizes
from audit.perturb.design import PerturbThresholds
from audit.perturb.record import FREE_FORM, PerturbCell, arms_read, lowest_arm
from audit.statistics.chance import chance_check
from audit.statistics.exchange import first_answered
from audit.statistics.wording_design import PLANNED_FLIPS, items_needed
from audit.statistics.wording_drop import item_means, run_noise, wording_flips


def all_gates(cell: PerturbCell, limits: PerturbThresholds) -> tuple[Gate, ...]:
    """Return the results of all checks of the measurement, in the order of the report.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        Thresholds of the checks.

    Returns
    -------
    tuple of Gate
        One result for each check. Checks of an imported log come first.
    """
    return (
        *log_checks(cell.log_checks),
        parseability(cell, limits),
        above_chance(cell, limits),
        order_of_items(cell, limits),
        noise_floor(cell, limits),
        exact_values(cell),
        variants_reached_model(cell, limits),
        broken_share(cell, limits),
        enough_data(cell, limits),
    )


def above_chance(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that the accuracy with the original wording exceeds the accuracy of guessing.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        The number of standard errors by which the accuracy must exceed guessing.

    Returns
    -------
    Gate
        Result of the check with a z score: (accuracy - chance) / standard error. The standard error
        is that of guessing. If some items have a free answer, which can hardly be guessed, the
        standard error is that of the accuracy.
    """
    limit = limits.above_chance_standard_errors
    values = first_answered(cell.tested.original)
    answered = ~np.isnan(values)
    if not answered.any():
        return Rule("above_chance", limit, CHANCE_SOURCE).absent(
            "The original wordings have no answer."
        )
    accuracy = float(values[answered].mean())
    options = cell.n_options[answered]
    if np.any(options == FREE_FORM):
        chance = float(cell.chance_items[answered].mean())
        se = float(np.sqrt(max(accuracy * (1 - accuracy), 1e-12) / answered.sum()))
        z = (accuracy - chance) / se
    else:
        check = chance_check(accuracy, options, limit)
        chance, z = check.chance, check.z
    return chance_gate(
        f"{accuracy:.3f}", z, chance, limit, {"accuracy": accuracy, "chance": chance}
    )


def parseability(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check the share of parsed answers in each arm.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        Holds the smallest allowed share of parsed answers. References with a lower share are left
        out of the comparison, and the result names these references.

    Returns
    -------
    Gate
        Result of the check. It fails only if the parsed share of an arm is significantly below the
        limit. Its number is the upper end of the Clopper-Pearson 95 % interval in the arm with the
        lowest share.
    """
    limit = limits.answered_share_min
    rule = Rule(
        "parseability",
        limit,
        "li2026, gate G1 (parseability at least 0.95); conf/verdict: answered_share_min",
    )
    arms, worst = arms_read(cell.tested), lowest_arm(cell.tested)
    if worst is None:
        return rule.absent("No item has a variant.")
    numbers: dict[str, float | None] = {}
    for arm in arms:
        numbers |= {
            arm.name: arm.share,
            f"{arm.name}_low": arm.limits[0],
            f"{arm.name}_high": arm.limits[1],
        }
    below = []
    for reference in cell.references:
        lowest = lowest_arm(reference)
        if lowest is not None:
            numbers[f"reference {reference.model}"] = lowest.share
            if lowest.limits[1] < limit:
                below.append(f"{reference.model} ({percent(lowest.share)} of {lowest.name})")
    left_out = ""
    if below:
        left_out = f" References left out because fewer are parsed: {', '.join(below)}."
    low, high = worst.limits
    return rule.checked(
        high >= limit,
        high,
        f"{percent(worst.share)} (95 % interval {percent(low)} to {percent(high)}) of the answers to {worst.name} are "
        f"parsed, the lowest of {len(arms)} arms. The check fails if the upper limit is too low.{left_out}",
        READ_ADVICE,
        numbers=numbers,
        items=ids_where(cell.question_ids, worst.unread),
    )


def noise_floor(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that repeated runs of the original wordings have equal accuracy.

    The runs differ only in their seeds.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        Holds the significance level of the test.

    Returns
    -------
    Gate
        Result of the check, with the p-value of Cochran's Q test.
    """
    limit = limits.noise_floor_alpha
    source = "ours; Cochran's Q between replicates of the original; conf/verdict: noise_floor_alpha"
    rule = Rule("noise_floor", limit, source)
    noise = run_noise(cell.tested.original, cell.cluster)
    if np.isnan(noise.pvalue):
        return rule.absent(
            "No two replicates of the original share an answered question, so the noise floor is "
            "unknown."
        )
    return rule.checked(
        noise.pvalue > limit,
        noise.pvalue,
        f"The {noise.replicates} replicates of the original differ "
        f"{'by no more' if noise.pvalue > limit else 'more'} than chance explains ({pvalue(noise.pvalue)}); "
        f"{percent(noise.flipped)} of outcomes change between replicates.",
        "Runs of the same prompt differ in more than the seed. Compare their shards (engine, "
        "prompts, truncated replies), and repeat the run.",
        numbers={
            "replicates": float(noise.replicates),
            "flipped": noise.flipped,
            "sd": noise.sd_difference,
        },
    )


def exact_values(cell: PerturbCell) -> Gate:
    """Check for values that are rare in real data and usually come from a fault.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.

    Returns
    -------
    Gate
        Result of the check. It fails if an accuracy is exactly 0 or 1, or if no answer differs
        between wordings.
    """
    arms = [("the original", row) for row in cell.tested.original]
    arms += [(f"variant {j + 1}", row) for j, row in enumerate(cell.tested.variants)]
    flips = wording_flips(cell.tested.variants, cell.tested.original)
    gap = cell.tested.variants - first_answered(cell.tested.original)
    same = np.any(~np.isnan(gap)) and not np.nansum(np.abs(gap)) and not flips > 0
    return exact(
        arms,
        np.concatenate([cell.tested.original, cell.tested.variants]),
        "no answer differs between any two wordings, so every interval has zero width"
        if same
        else "",
        "No accuracy is exactly 0 or 1, and answers differ between wordings.",
        "Look at the raw replies. Such values usually come from unparsed answers, wrong labels or "
        "variants that did not reach the model.",
    )


def variants_reached_model(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that the requests with variants differ from each other and from the original request.

    Parameters
    ----------
    cell : PerturbCell
        The cell, which holds counts of equal requests.
    limits : PerturbThresholds
        Holds the largest allowed share of repeated requests.

    Returns
    -------
    Gate
        Result of the check, with the share of requests that repeat another request (0-1).
    """
    return reached_model(
        "variants_reached_model",
        [cell.requests] if cell.requests else [],
        limits.noop_share_max,
        "Of {compared} requests with a variant, {same} equal the request of the original and {repeated} that of "
        "another variant.",
        "Look at the prompts that were sent. The template may drop the variant, or the variant may "
        "be cut off or equal the original.",
        nothing="The hashes of requests are missing, so it is unknown whether the variants reached "
        "the model.",
        must=cell.requests is not None,
    )


def broken_share(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that few variants are broken, which means that their gold answer is no longer right.

    The upper 95 % confidence limit of the share of broken variants is compared with a threshold.

    Parameters
    ----------
    cell : PerturbCell
        The cell, which holds the result of a person's review of sampled variants.
    limits : PerturbThresholds
        Holds the largest allowed upper confidence limit.

    Returns
    -------
    Gate
        Result of the check; not applicable if no person reviewed a sample.
    """
    source = "Clopper-Pearson upper limit of the human sample of the library; conf/verdict: broken_share_max"
    limit = limits.broken_share_max
    rule = Rule("broken_share", limit, source)
    broken = cell.broken
    if broken is None:
        return rule.absent(
            "No person read a sample of the variants, so broken variants cannot be excluded."
        )
    return rule.checked(
        broken.upper <= limit,
        broken.upper,
        f"{broken.broken} of {broken.checked} variants that a person read are broken: at most {percent(broken.upper)} "
        f"of all ({percent(broken.confidence)} limit).",
        "Read more variants (audit variants review), or build a library with stricter gates.",
        numbers={
            "checked": float(broken.checked),
            "broken": float(broken.broken),
            "share": broken.share,
        },
    )


def enough_data(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that enough independent items have answers to both the original and a variant.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        Holds the smallest allowed number of items.

    Returns
    -------
    Gate
        Result of the check. If only this check fails, the verdict is `underpowered`.

    Notes
    -----
    Suppose that rewording affects 5 % of the items. With a probability of more than 5 %, a sample
    of fewer than 59 items then contains no affected item. Such a small sample can show a drop, but
    cannot exclude a drop.
    """
    limit = limits.units_min
    has_pair = ~np.isnan(item_means(*cell.tested.pair)[0])
    n, units = int(has_pair.sum()), int(np.unique(cell.cluster[has_pair]).size)
    effect, wordings = limits.effect_of_interest, len(cell.tested.variants)
    needed = items_needed(effect, wordings, PLANNED_FLIPS, alpha=limits.alpha, power=limits.power)
    groups = "" if units == n else f" in {units:,} groups"
    return Rule("enough_data", limit, "ours; conf/verdict: units_min").checked(
        units >= limit,
        units,
        f"{n:,} questions{groups} have an answer to the original and to a variant. The test needs {limit:g} "
        "independent questions.",
        "Take more questions."
        if needed is None
        else f"Ask about {needed:,} questions ({n:,} were asked).",
        withholds=False,
        numbers=sizes(n, needed),
    )


def order_of_items(cell: PerturbCell, limits: PerturbThresholds) -> Gate:
    """Check that an id belongs to the same item in every arm.

    If the ids match, answers to the original and to the variants of an item are positively
    correlated over the items.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    limits : PerturbThresholds
        Holds the required z and the smallest number of items.

    Returns
    -------
    Gate
        Result of the check, with the number

            z = correlation * sqrt(n - 1).

        The correlation is computed over the n items. It compares the answer to the original with
        the mean answer to the variants. The check is skipped if the variants agree so little with
        each other that no significant correlation is expected (Spearman-Brown).
    """
    name, limit = "order_of_items", limits.order_z_min
    source = "ours; conf/verdict: order_z_min, order_items_min"
    rule = Rule(name, limit, source)
    first = first_answered(cell.tested.original)
    variants = cell.tested.variants
    complete = ~np.isnan(first) & ~np.isnan(variants).any(axis=0)
    x, v = first[complete], variants[:, complete]
    if x.size < limits.order_items_min or len(v) < 2 or x.std() == 0:
        return rule.absent(
            f"{x.size} items have all answers, with {len(v)} variants. The check needs "
            f"{limits.order_items_min:g} items with two variants, and both right and wrong answers."
        )
    varying = v[v.std(axis=1) > 0]
    between = 0.0  # mean correlation between two variants
    if len(varying) > 1:
        pairs = np.corrcoef(varying)[np.triu_indices(len(varying), 1)]
        between = max(float(pairs.mean()), 0.0)
    # Expected correlation of one wording with the mean of the N variants (Spearman-Brown).
    expected = between / np.sqrt((1 + (len(v) - 1) * between) / len(v)) if between else 0.0
    measured = agreement(x, v.mean(axis=0), expected, limit)
    if measured is None:
        return rule.absent(
            "The variants agree too little with each other to check the order of items."
        )
    return Rule(name, measured.limit, source).checked(
        measured.z >= measured.limit,
        measured.z,
        f"Answers to originals agree with answers to variants of the same items {measured.z:.1f} "
        "standard errors better than with those of shuffled items. The agreement between variants "
        f"predicts {measured.expected:.0f}.",
        "The rows of the originals seem to belong to other items than those of the variants. "
        "Compare the rows of one id.",
        numbers={"expected_z": measured.expected, "items": float(x.size)},
    )
