"""Recompute a published model-by-router table: the statistics of `audit reanalyze`.

The table contains counts, but no results of single items. Each setting is therefore tested by an
exact McNemar test, and the p-values are corrected over the panel. A max-statistic test or a paired
bootstrap would need the results of single items. The module does no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.papers import ALPHA
from audit.statistics.chance import CHANCE_STANDARD_ERRORS, ChanceResult, chance_check
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import false_discovery, holm
from audit.statistics.paired import FloatArray
from audit.statistics.power import minimum_detectable_gain
from audit.sweep.paper import (
    ModelSummary,
    RouterSummary,
    SettingRow,
    model_summary,
    router_summary,
    slope_weights,
)

OTHER_CHANCE = 0.10  # accuracy of guessing among ten options


@dataclass(frozen=True)
class SettingTest:
    """Hold one setting with its exact test.

    Attributes
    ----------
    row : SettingRow
        Printed numbers of the setting.
    pvalue : float
        p-value of the exact one-sided McNemar test (alternative: gain > 0).
    holm, benjamini_hochberg : float
        p-values adjusted over all settings by the two methods.
    """

    row: SettingRow
    pvalue: float
    holm: float
    benjamini_hochberg: float


@dataclass(frozen=True)
class Mismatch:
    """Hold a printed cell that differs from the value recomputed from the table.

    Attributes
    ----------
    table, key, column : str
        Names of the table, of the row and of the column.
    printed, recomputed : float
        Printed value and recomputed value.
    """

    table: str
    key: str
    column: str
    printed: float
    recomputed: float


@dataclass(frozen=True)
class NoEffect:
    """Hold how often the paper's rule finds violations in simulated models without any effect.

    Attributes
    ----------
    simulations : int
        Number of simulated panels.
    setting_rate : float
        Expected share of settings with gain > 0.
    model_rate : float
        Share of models with at least one setting with gain > 0.
    broad_rate : float
        Share of models with a gain > 0 in 7 of 9 settings, or in the same proportion of a different
        number of settings.
    violations, violations_low, violations_high : float
        Number of violations in a panel: the mean over the simulated panels, and the limits of the
        central 95 %.
    pvalue : float
        Share of simulated panels with at least as many violations as observed.
    """

    simulations: int
    setting_rate: float
    model_rate: float
    broad_rate: float
    violations: float
    violations_low: float
    violations_high: float
    pvalue: float


@dataclass(frozen=True)
class Heterogeneity:
    """Hold the result of the test of hypothesis H2 on the printed counts (see `heterogeneity`).

    Attributes
    ----------
    models : int
        Number of models.
    statistic, pvalue : float
        Cochran's Q of the models' mean gains, and its p-value.
    spread : float
        Standard deviation of the true mean gains between models (DerSimonian & Laird 1986), as a
        fraction (0-1).
    """

    models: int
    statistic: float
    pvalue: float
    spread: float


@dataclass(frozen=True)
class Trend:
    """Hold the result of the test of hypothesis H3 on the printed counts (see `trend`).

    Slopes are means over the models, in questions per added router.

    Attributes
    ----------
    models : int
        Number of models.
    improve, p_improve : float
        Mean slope of the number of improvements, and the one-sided p-value for a rise.
    degrade, p_degrade : float
        Mean slope of the number of degradations, and the one-sided p-value for a fall.
    net, p_net : float
        Mean slope of the number of improvements minus degradations, and the one-sided p-value for a
        rise.
    """

    models: int
    improve: float
    p_improve: float
    degrade: float
    p_degrade: float
    net: float
    p_net: float

    @property
    def pvalue(self) -> float:
        """Return the larger of `p_improve` and `p_degrade`, since H3 claims both trends."""
        return max(self.p_improve, self.p_degrade)


@dataclass(frozen=True)
class Panel:
    """Hold the tests of H2 and H3 and the recomputed Table 3 for a selection of the printed
    settings.

    Attributes
    ----------
    name : str
        Name of the selection:

        - "all": all settings;
        - "without_exact": settings whose accuracy is neither exactly 0 nor exactly 1;
        - "without_their_models": settings of models without any accuracy of exactly 0 or 1.
    settings : int
        Number of settings in the selection.
    routers : tuple of RouterSummary
        Table 3, recomputed for the selection.
    heterogeneity, trend : Heterogeneity, Trend
        Tests of H2 and of H3.
    """

    name: str
    settings: int
    routers: tuple[RouterSummary, ...]
    heterogeneity: Heterogeneity
    trend: Trend


@dataclass(frozen=True)
class Reanalysis:
    """Hold all results that are computed from the table.

    Attributes
    ----------
    n : int
        Number of questions behind each accuracy.
    settings, models, routers : tuple
        Tests of the settings, and recomputed Tables 1 and 3.
    mismatches, compared_cells : tuple, int
        Printed cells that differ from the recomputed values, and number of compared cells.
    chance : mapping of str to ChanceResult
        Comparison of each model's clean accuracy with guessing.
    exact_values : tuple of SettingRow
        Settings with an accuracy of exactly 0 or 1.
    discordance : float
        Share of questions whose result changed, as a mean over the settings.
    mde_single, mde_model, mde_panel : float
        Smallest gain (accuracy 0-1) that is detected with 80 % power: in one setting, in all
        settings of a model, and in the whole panel.
    no_effect : NoEffect
        Simulation of models without any effect.
    panels : tuple of Panel
        Tests of H2 and H3.
    chance_assumed : bool
        True if the number of options is assumed.
    """

    n: int
    settings: tuple[SettingTest, ...]
    models: tuple[ModelSummary, ...]
    routers: tuple[RouterSummary, ...]
    mismatches: tuple[Mismatch, ...]
    compared_cells: int
    chance: Mapping[str, ChanceResult]
    exact_values: tuple[SettingRow, ...]
    discordance: float
    mde_single: float
    mde_model: float
    mde_panel: float
    no_effect: NoEffect
    panels: tuple[Panel, ...] = ()
    chance_assumed: bool = False

    @property
    def violations(self) -> int:
        """Return the number of settings with a gain above zero."""
        return sum(test.row.violation for test in self.settings)

    @property
    def rejected(self) -> tuple[int, int, int]:
        """Return three numbers of settings with p < alpha: without adjustment, after Holm's
        adjustment, and after Benjamini and Hochberg's.
        """
        pvalues = [(t.pvalue, t.holm, t.benjamini_hochberg) for t in self.settings]
        raw, after_holm, after_bh = np.sum(np.array(pvalues) < ALPHA, axis=0).tolist()
        return raw, after_holm, after_bh

    @property
    def sentence(self) -> str:
        """Return the summary sentence for the terminal and the json."""
        raw, after_holm, after_bh = self.rejected
        total, e = len(self.settings), self.no_effect
        survivors = [t.row for t in self.settings if t.holm < ALPHA]
        text = (
            f"{self.violations} of {total} settings gain over the clean baseline; "
            "models without any effect would show about "
            f"{e.violations:.0f} ({e.violations_low:.0f} to {e.violations_high:.0f}). "
            f"{raw} have an exact one-sided p < {ALPHA:g}, {after_holm} survive Holm "
            f"and {after_bh} Benjamini-Hochberg over the {total} settings"
        )
        if self.chance_assumed and survivors:
            assumed = round(1 / next(iter(self.chance.values())).chance)
            other = round(1 / OTHER_CHANCE)
            text += (
                ". How many options a question has is not printed. If "
                f"{assumed}, as assumed here, {_at_chance(survivors, self.chance)}; if {other}, "
                f"{_at_chance(survivors, _chances(self.n, survivors, OTHER_CHANCE))}"
            )
        elif survivors:
            text += f"; {_at_chance(survivors, self.chance)}"
        text += (
            f". With {self.n} questions a single planned comparison detects a gain of "
            f"{100 * self.mde_single:.0f} points, the whole panel one of {100 * self.mde_panel:.0f}."
        )
        if self.exact_values:
            text += (
                f" {len(self.exact_values)} accuracies are exactly 0 or 1: "
                "look for unparsed output before reading them."
            )
            text += _reversal(self.panels)
        return text


def _reversal(panels: Sequence[Panel]) -> str:
    """Return a sentence on the number r of routers from which on the net improvement is positive.

    The sentence states r for all cells, and r without the cells whose accuracy is exactly 0 or 1.
    If both numbers are equal, the sentence is "".
    """
    if len(panels) < 2:
        return ""
    printed, without = _positive_from(panels[0].routers), _positive_from(panels[1].routers)
    if printed is None or without is None or printed == without:
        return ""
    return (
        f" Net improve stays positive from r={printed} on as printed, "
        f"and from r={without} on without these cells."
    )


def _positive_from(routers: Sequence[RouterSummary]) -> int | None:
    """Return the smallest number r of routers from which on the net improvement is positive.

    The value is None if no such r exists.
    """
    from_here = None
    for summary in sorted(routers, key=lambda summary: -summary.routers):
        if summary.net_improve <= 0:
            break
        from_here = summary.routers
    return from_here


# Printed value of a cell, and half a unit of the last printed digit.
PrintedCell = tuple[float, float]
PrintedTable = Mapping[str, Mapping[str, PrintedCell]]


def reanalyse(
    rows: Sequence[SettingRow],
    chance: float,
    *,
    rng: np.random.Generator,
    printed: tuple[PrintedTable, PrintedTable] | None = None,
    simulations: int = 2_000,
    chance_assumed: bool = False,
) -> Reanalysis:
    """Recompute the summaries of a table of settings, and test the settings.

    All settings have the same n, and all settings of a model have the same clean baseline.

    Parameters
    ----------
    rows : sequence of SettingRow
        Settings of the table.
    chance : float
        Expected accuracy of guessing, 0-1.
    rng : numpy.random.Generator
        Source of the simulation.
    printed : tuple of PrintedTable or None
        Printed summaries by model (Table 1) and by number of routers (Table 3).
    simulations : int
        Number of simulated panels.
    chance_assumed : bool
        True if the source of the table does not state the number of options. The sentence then also
        states the result for OTHER_CHANCE.

    Returns
    -------
    Reanalysis
        All results.
    """
    n = rows[0].n
    counts = np.array([(row.improve, row.degrade) for row in rows])
    p = mcnemar_exact(counts[:, 0], counts[:, 1])
    tests = []
    for row, *pvalues in zip(rows, p, holm(p), false_discovery(p), strict=True):
        tests.append(SettingTest(row, *map(float, pvalues)))
    models, routers = model_summary(rows), router_summary(rows)
    mismatches: list[Mismatch] = []
    compared_cells = 0
    if printed:
        table1, table3 = printed
        mismatches = _compare("Table 1", table1, models) + _compare("Table 3", table3, routers)
        for columns in (*table1.values(), *table3.values()):
            compared_cells += len(columns)
    discordance = _discordance(rows)
    per_model = max(map(len, by_model(rows).values()))
    return Reanalysis(
        n=n,
        settings=tuple(tests),
        models=tuple(models),
        routers=tuple(routers),
        mismatches=tuple(mismatches),
        compared_cells=compared_cells,
        chance=_chances(n, rows, chance),
        exact_values=tuple(filter(is_exact, rows)),
        discordance=discordance,
        mde_single=minimum_detectable_gain(n, discordance, ALPHA),
        mde_model=minimum_detectable_gain(n, discordance, ALPHA, n_tests=per_model),
        mde_panel=minimum_detectable_gain(n, discordance, ALPHA, n_tests=len(rows)),
        no_effect=expected_without_effect(rows, rng=rng, simulations=simulations),
        panels=panels(rows),
        chance_assumed=chance_assumed,
    )


def _discordance(rows: Sequence[SettingRow]) -> float:
    """Return the share of questions whose result changed, as a mean over settings."""
    return float(np.mean([(row.improve + row.degrade) / row.n for row in rows]))


def is_exact(row: SettingRow) -> bool:
    """Return True if an accuracy is exactly 0 or 1. Such a value is probably due to unparsed
    output.
    """
    return not {row.noisy_accuracy, row.clean_accuracy}.isdisjoint((0.0, 1.0))


def panels(rows: Sequence[SettingRow]) -> tuple[Panel, ...]:
    """Test H2 and H3 on all settings and, if some accuracies are exactly 0 or 1, also without these
    settings.

    Parameters
    ----------
    rows : sequence of SettingRow
        Settings of the table.

    Returns
    -------
    tuple of Panel
        Results for all settings, for the settings whose accuracy is neither exactly 0 nor exactly
        1, and for the models that have only such settings. A selection with fewer than two models
        or with a single number of routers is left out.
    """
    odd_models = {row.model for row in rows if is_exact(row)}
    selections = {"all": list(rows)}
    if odd_models:
        selections["without_exact"] = [row for row in rows if not is_exact(row)]
        selections["without_their_models"] = [row for row in rows if row.model not in odd_models]
    tested = []
    for name, selection in selections.items():
        try:
            tests = heterogeneity(selection), trend(selection)
        except DataError:
            continue
        tested.append(Panel(name, len(selection), tuple(router_summary(selection)), *tests))
    return tuple(tested)


def heterogeneity(rows: Sequence[SettingRow]) -> Heterogeneity:
    """Test H2: whether the mean gains of the models differ by more than sampling explains.

    Parameters
    ----------
    rows : sequence of SettingRow
        Settings of K models.

    Returns
    -------
    Heterogeneity
        Cochran's Q and its p-value.

    Raises
    ------
    DataError
        If there are fewer than two models.

    Notes
    -----
    The statistic over the K models is

        Q = sum(w * (g - mean)^2), with w = 1 / se^2,

    where g is the mean gain of a model. Q is compared with the chi-squared distribution with K - 1
    degrees of freedom. For a setting with b improvements and c degradations among n items,

        se^2 = (b + c - (b - c)^2 / n) / n^2.

    The paper does not print results of single items, so the correlation between the settings of a
    model is unknown. The standard error of a model's mean gain is therefore taken as the mean of
    the standard errors of the settings. This is the largest possible value, which makes the p-value
    too large rather than too small. All models answered the same items; the common part of their
    errors is not removed.

    References
    ----------
    Cochran 1954, Biometrics 10; DerSimonian & Laird 1986, Controlled Clinical Trials 7.
    """
    models = by_model(rows)
    if len(models) < 2:
        raise DataError(f"Number of models is {len(models)}. Expected two or more to compare.")
    gains, errors = [], []
    for settings in models.values():
        gains.append(np.mean([row.gain for row in settings]))
        errors.append(np.mean([_gain_se(row) for row in settings]))
    gain, se = np.array(gains), np.array(errors)
    weight = 1 / np.maximum(se, 1e-12) ** 2
    mean = np.sum(weight * gain) / weight.sum()
    statistic = float(np.sum(weight * (gain - mean) ** 2))
    df = len(models) - 1
    scale = weight.sum() - np.sum(weight**2) / weight.sum()
    spread = float(np.sqrt(max(0.0, (statistic - df) / scale)))
    return Heterogeneity(len(models), statistic, float(scipy.stats.chi2.sf(statistic, df)), spread)


def trend(rows: Sequence[SettingRow]) -> Trend:
    """Test H3: whether improvements rise and degradations fall with the number r of routers.

    Parameters
    ----------
    rows : sequence of SettingRow
        Settings of K models.

    Returns
    -------
    Trend
        Mean slopes and their p-values.

    Raises
    ------
    DataError
        If fewer than two models have two or more numbers of routers.

    Notes
    -----
    The slope of a model is the least-squares slope of the model's counts on the number r of
    routers. Without a trend, both signs of a slope are equally likely, so all 2^K combinations of
    signs are enumerated (exact permutation test). The test assumes that the models are independent.
    The printed counts cannot confirm this, since all models answered the same items.
    """
    rising, falling = [], []
    for settings in by_model(rows).values():
        counts = np.array([(row.routers, row.improve, row.degrade) for row in settings])
        routers, improved, degraded = counts.T
        if np.unique(routers).size > 1:
            weights = slope_weights(routers.tolist())
            rising.append(float(np.dot(improved, weights)))
            falling.append(float(np.dot(degraded, weights)))
    if len(rising) < 2:
        raise DataError(
            f"Number of models with two or more router counts is {len(rising)}. Expected two or more."
        )
    up, down = np.array(rising), np.array(falling)
    net = up - down
    return Trend(
        len(rising),
        float(up.mean()),
        _sign_flip(up),
        float(down.mean()),
        _sign_flip(-down),
        float(net.mean()),
        _sign_flip(net),
    )


def by_model(rows: Sequence[SettingRow]) -> dict[str, list[SettingRow]]:
    """Return the settings of each model, in the order of the rows."""
    models: dict[str, list[SettingRow]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(row)
    return models


def _gain_se(row: SettingRow) -> float:
    """Return the standard error of a paired gain. At least one changed item is assumed."""
    changed = max(row.improve + row.degrade, 1.0)
    return float(np.sqrt(max(changed - (row.improve - row.degrade) ** 2 / row.n, 0.0))) / row.n


def _sign_flip(slopes: FloatArray) -> float:
    """Return the exact one-sided p-value of the test that the mean slope is above zero (sign-flip
    test).
    """
    tested = scipy.stats.permutation_test(
        (slopes,),
        np.mean,
        permutation_type="samples",
        alternative="greater",
        rng=np.random.default_rng(0),
    )
    return float(tested.pvalue)


def expected_without_effect(
    rows: Sequence[SettingRow], *, rng: np.random.Generator, simulations: int = 2_000
) -> NoEffect:
    """Simulate panels in which clean and noisy accuracies differ by chance alone.

    Parameters
    ----------
    rows : sequence of SettingRow
        Settings with the published accuracies and numbers of changed results.
    rng : numpy.random.Generator
        Source of the answers.
    simulations : int
        Number of panels.

    Returns
    -------
    NoEffect
        Rates of the paper's rule.

    Notes
    -----
    In the simulation, a model answers an item right with a probability p that is the same in every
    setting. Over the items, p has a Beta distribution whose mean is the clean accuracy. The
    variance of this distribution is chosen so that two runs on the same items disagree as often as
    published:

        2 * E[p * (1 - p)] = mean((improve + degrade) / n).

    All settings of a model share one clean run.
    """
    n = rows[0].n
    cells = by_model(rows)
    counts = np.zeros((simulations, len(cells)), dtype=np.int64)
    for k, settings in enumerate(cells.values()):
        mean = settings[0].clean_accuracy
        disagree = _discordance(settings) / 2
        most = mean * (1 - mean)
        for s in range(simulations):
            if disagree <= 0 or most <= 0:
                break  # If two runs never disagree, no gain is possible.
            if disagree >= most:
                item = np.full(n, mean)
            else:
                # For a Beta(a, b), E[p(1-p)] = mean (1 - mean) (a + b) / (a + b + 1).
                size = disagree / (most - disagree)
                item = rng.beta(mean * size, (1 - mean) * size, size=n)
            right = (rng.random((len(settings) + 1, n)) < item).sum(axis=1)
            counts[s, k] = int(np.sum(right[1:] > right[0]))
    sizes = np.array(list(map(len, cells.values())))
    panel = counts.sum(axis=1)
    observed = sum(r.violation for r in rows)
    low, high = np.quantile(panel, [0.025, 0.975])
    return NoEffect(
        simulations=simulations,
        setting_rate=float(panel.mean() / sizes.sum()),
        model_rate=float(np.mean(counts >= 1)),
        broad_rate=float(np.mean(counts >= np.ceil(7 / 9 * sizes - 1e-9))),
        violations=float(panel.mean()),
        violations_low=float(low),
        violations_high=float(high),
        pvalue=float((1 + np.sum(panel >= observed)) / (simulations + 1)),
    )


def _compare(
    table: str, printed: PrintedTable, summary: Sequence[ModelSummary] | Sequence[RouterSummary]
) -> list[Mismatch]:
    """Return the printed cells that differ from the recomputed value by more than rounding
    explains."""
    computed = {}
    for entry in summary:
        key = entry.model if isinstance(entry, ModelSummary) else str(entry.routers)
        computed[key] = entry
    mismatches = []
    for row, columns in printed.items():
        for column, (value, half_digit) in columns.items():
            recomputed = float(getattr(computed[row], column))
            if abs(recomputed - value) > half_digit + 1e-9:
                mismatches.append(Mismatch(table, row, column, value, recomputed))
    return mismatches


def _chances(n: int, rows: Sequence[SettingRow], chance: float) -> dict[str, ChanceResult]:
    """Return the comparison of each model's clean accuracy with guessing."""
    n_options = np.full(n, 1 / chance)
    checks = {}
    for row in rows:
        checks[row.model] = chance_check(row.clean_accuracy, n_options, CHANCE_STANDARD_ERRORS)
    return checks


def _at_chance(survivors: Sequence[SettingRow], chance: Mapping[str, ChanceResult]) -> str:
    """Return a phrase with the models that have a significant setting after Holm's correction, but
    a clean accuracy not above chance.
    """
    models = by_model(survivors)
    low = sorted(model for model in models if not chance[model].above)
    if not low:
        return "all that survive Holm are of models whose clean accuracy is above chance"
    if len(low) == len(models):
        names = ", ".join(low)
        return f"all that survive Holm are of models whose clean accuracy is not above chance ({names})"
    return f"of those that survive Holm, {', '.join(low)} are not above chance when clean"
