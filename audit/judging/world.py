"""Define the simulated worlds of a calibration: what is true of the models and of the benchmark.

An audit draws the simulated answers to its questions from a `World`. A world has two groups of
facts:

- Facts about ability, memory and unparsed answers apply to every kind of question.
- Every other fact concerns one kind of question, such as variants. Audits without questions of this
  kind cannot detect the fact.

A new audit uses the first group, and adds facts to `World` if its questions need them. The module
does no I/O.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from audit.statistics.item_response import ranks
from audit.statistics.paired import BoolArray


class Known(NamedTuple):
    """Hold what the tested model remembers of each published item, as boolean arrays of shape (n,).

    Attributes
    ----------
    anyhow : array of bool
        True if the model knows the answer under any wording.
    published : array of bool
        True if the model knows the answer under the published wording.
    read : array of bool
        True if the model has read the text.
    """

    anyhow: BoolArray
    published: BoolArray
    read: BoolArray


@dataclass(frozen=True, kw_only=True)
class World:
    """Hold what is true of the tested model, its references and the items. The default has no
    effects.

    Accuracies, shares and points are fractions (0-1). Changes in points are stated for a model with
    the accuracy of the design.

    Attributes
    ----------
    accuracy : float, optional
        Accuracy of the tested model without memory; the design's accuracy by default.
    others : tuple of float, optional
        Lowest and highest accuracy of the references. Their accuracies are evenly spaced between
        these two values. By default they lie around the tested model's accuracy.
    abler : float
        By how many logits every reference of a suite is more able than the tested model.
    answers, wording, text : float
        Share of the published items that the tested model remembers in one of three ways: the
        answer under any wording, the answer under the published wording, or the text. The items of
        a smaller share are a subset of the items of a larger share.
    group : int
        Number of neighbouring items in a group. The items of a group are remembered together.
    unparsed : float
        Share of all answers of all models that is not parsed.
    unparsed_wrong, unparsed_right : float
        Share of unparsed answers among the tested model's answers to changed questions (noisy
        messages, variants). Unparsed answers that are wrong, and unparsed answers that are right,
        have separate shares.

    gain, gain_one_r : float
        Points that the accuracy with noisy messages gains, at every number r of messages or only
        at r=1. A negative gain applies to the reference too.
    clean_loss : float
        Points that the clean baseline and the ensemble control lose, while the accuracy with noisy
        messages does not change.
    lossy_alone : bool
        True if the loss `clean_loss` occurs only with a single clean message, not with several.
    repetition : float
        Points gained if there is more than one message, whether the messages are intact or damaged.
    shock, noisy_shock : float
        Standard deviation of a shift that all questions of one run share. `noisy_shock` replaces
        this value in noisy runs.
    repeats : float
        Share of questions whose answer is the same in every run of the unchanged question
        (temperature 0 and faithful relays).
    helps_weak : float
        Points that noise adds to items with a probability of a right answer below 1/2, and
        subtracts from other items.
    group_sd : float
        Standard deviation of an effect that all items of a group share in one run (latent normal
        scale).
    grouped : bool
        True if the run knows the groups.
    leak, hints : float
        Share of questions whose noisy messages state the answer, and share of questions whose noisy
        messages give every model a hint of the answer.

    harder : float
        Points that every model loses on variants.
    harder_alone : float
        Further points that the tested model alone loses on variants.
    uneven, uneven_references : float
        Standard deviation, between models, of the points lost on variants. `uneven_references`
        replaces this value for references.
    touchy : float
        Further points that one of eight models loses on variants.
    family : str
        First part of the references' names. The first part of the tested model's name is "model".
    logit : bool
        True if abilities and costs are in log-odds.
    specific : float
        Standard deviation of the variants' own difficulties, in log-odds.
    broken : float
        Share of variants whose gold answer is no longer right.
    broken_where : {"any", "easy", "alone"}
        Items whose variants are broken: any items, easy items, or items that only the tested model
        knows.
    broken_unseen : bool
        True if the reader of the variants found no broken variant.
    easier_known : bool
        True if easy items are remembered more often.
    tainted : bool
        True if one reference remembers the published wording.
    references_unparsed : float
        Share of unparsed answers, all wrong, among the references' answers to variants.
    fresh_easier : float
        By how many points the loss on variants is smaller for held-out items than for the
        benchmark's items.

    fresh_harder : float
        Points that every model loses on the held-out items.
    newer : float
        Further points that the tested model loses on the held-out items because these items are
        newer. The audit does not know the dates.
    fresh_touchy : float
        Further points that one reference loses on the held-out items.
    tau : float
        Standard deviation, between models, of the difference in points between the two sets.
    spread, fresh_spread : float
        Standard deviation of item difficulties, in logits, for published and for held-out items.
    guess, fresh_guess : float
        Probability of guessing right on an unknown published item. `fresh_guess` replaces this
        value for held-out items.
    fresh_options : int
        Number of options of a held-out item. The audit knows this number, but not the probability
        of a right guess.
    chosen : bool
        True if the held-out items were chosen from a pool by the references' own answers.
    knowing : int
        Number of references that know the same published answers.
    hidden : float
        Share of the tested model's answers on each set that are not parsed. If `hidden` is above 0,
        the unparsed answers would support a gap. If `hidden` is below 0, the unparsed answers would
        contradict a gap.

    popular : float
        How much likelier a published text is than a held-out text, in standard deviations.
    uses, uses_range : float
        Factor by which the tested model's likelihoods are multiplied, and half the range of this
        factor over the references.
    even : bool
        True if likelihoods have the same spread over texts for every model.
    sequenced, felt : float
        How much likelier the published order is to every model, in standard deviations. For the
        tested model, this effect is multiplied by `felt`.
    file : float
        How much likelier every text and order is, in standard deviations, because the tested model
        has read the whole file.

    Examples
    --------
    >>> World(wording=0.15, harder=0.05).facts()
    {'wording': 0.15, 'harder': 0.05}
    """

    # Ability, memory and unparsed answers: these facts apply to every kind of question.
    accuracy: float | None = None
    others: tuple[float, float] | None = None
    abler: float = 0.0
    answers: float = 0.0
    wording: float = 0.0
    text: float = 0.0
    group: int = 1
    unparsed: float = 0.0
    unparsed_wrong: float = 0.0
    unparsed_right: float = 0.0
    # messages and runs
    gain: float = 0.0
    gain_one_r: float = 0.0
    clean_loss: float = 0.0
    lossy_alone: bool = False
    repetition: float = 0.0
    shock: float = 0.0
    noisy_shock: float | None = None
    repeats: float = 0.0
    helps_weak: float = 0.0
    group_sd: float = 0.0
    grouped: bool = True
    leak: float = 0.0
    hints: float = 0.0
    # variants
    harder: float = 0.0
    harder_alone: float = 0.0
    uneven: float = 0.0
    uneven_references: float | None = None
    touchy: float = 0.0
    family: str = "model"
    logit: bool = False
    specific: float = 0.0
    broken: float = 0.0
    broken_where: Literal["any", "easy", "alone"] = "any"
    broken_unseen: bool = False
    easier_known: bool = False
    tainted: bool = False
    references_unparsed: float = 0.0
    fresh_easier: float = 0.0
    # held-out items
    fresh_harder: float = 0.0
    newer: float = 0.0
    fresh_touchy: float = 0.0
    tau: float = 0.0
    spread: float = 1.8
    fresh_spread: float = 1.8
    guess: float = 0.0
    fresh_guess: float | None = None
    fresh_options: int = 4
    chosen: bool = False
    knowing: int = 0
    hidden: float = 0.0
    # likelihoods
    popular: float = 0.0
    uses: float = 1.0
    uses_range: float = 0.1
    even: bool = False
    sequenced: float = 0.0
    felt: float = 1.0
    file: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return the facts that differ from their defaults, by name.

        Returns
        -------
        dict
            Value of each such fact by name, in the order of the fields; empty if none differs.
        """
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: value for name, value, default in values if value != default}

    def known(self, n: int, rng: np.random.Generator) -> Known:
        """Draw which published items the tested model remembers.

        Parameters
        ----------
        n : int
            Number of published items.
        rng : numpy.random.Generator
            Source of the draws.

        Returns
        -------
        Known
            The remembered items.
        """
        rank = ranks(n, rng, self.group)
        published = max(self.answers, self.wording)
        return Known(rank < self.answers, rank < published, rank < self.text)
