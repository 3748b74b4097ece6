"""What is true of simulated models and of their benchmark: the facts that a calibration varies
(pure).

An audit draws the outcomes of what it asks from a `World`. The facts about ability, memory and
unparsed answers hold whatever is asked. Every other fact concerns one kind of question, and an audit
that does not ask it cannot see the fact. A new audit reads the facts of the first kind, and extends
`World` if its questions need others.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from audit.statistics.item_response import ranks
from audit.statistics.paired import BoolArray


class Known(NamedTuple):
    """Published items (n,) that the tested model remembers.

    Attributes
    ----------
    anyhow : array of bool
        True if the answer is known in any words.
    published : array of bool
        True if the answer is known in the published words.
    read : array of bool
        True if the text was read.
    """

    anyhow: BoolArray
    published: BoolArray
    read: BoolArray


@dataclass(frozen=True, kw_only=True)
class World:
    """Hold what is true of the tested model, its references and the items. By default nothing acts.

    Accuracies, shares and points are 0-1. A fact that costs or gains points does so at the accuracy
    of the design.

    Attributes
    ----------
    accuracy : float, optional
        Accuracy of the tested model without memory. By default the design's.
    others : tuple of float, optional
        Accuracies of the references, evenly between two values. By default around the tested
        model's.
    abler : float
        Logits by which every reference of a suite is abler.
    answers, wording, text : float
        Shares of the published items of which the tested model remembers the answer in any words,
        the answer in the published words, the text. The smaller shares lie in the larger ones.
    group : int
        Neighbours that form one group: they are remembered together.
    unparsed : float
        Share of all answers of all models that is not parsed.
    unparsed_wrong, unparsed_right : float
        Share of the tested model's answers to the changed question (noisy messages, variants) that
        is wrong, or right, and not parsed.

    gain, gain_one_r : float
        Points that the noisy arm gains at every r, at r=1 alone. A gain below zero is the
        reference's too.
    clean_loss : float
        Points that the clean baseline and the ensemble control lose, and the noisy arm does not.
    lossy_alone : bool
        True if only one clean message loses them: several make up for it.
    repetition : float
        Points that more than one message gains, whole or damaged.
    shock, noisy_shock : float
        Standard deviation of a shift common to one run; of the noisy runs, if another.
    repeats : float
        Share of questions whose answer is the same in every run of the unchanged question
        (temperature 0 and faithful relays).
    helps_weak : float
        Points that noise adds where the chance is below 1/2, and takes elsewhere.
    group_sd : float
        Standard deviation of what a group shares in one run (latent normal scale).
    grouped : bool
        True if the run knows the groups.
    leak, hints : float
        Share of questions whose noisy messages state the answer; that hint at it, for every reader.

    harder : float
        Points that variants cost every model.
    harder_alone : float
        Points that variants cost the tested model beside.
    uneven, uneven_references : float
        Standard deviation of that cost between models; between references, if another.
    touchy : float
        Points that variants cost one model in eight beside.
    family : str
        Beginning of the references' names; that of the tested model is "model".
    logit : bool
        True if abilities and costs are in log-odds.
    specific : float
        Standard deviation in log-odds of the variants' own difficulties.
    broken : float
        Share of variants that lost their answer.
    broken_where : {"any", "easy", "alone"}
        Items whose variants are broken: any, easy ones, those that the tested model alone knows.
    broken_unseen : bool
        True if the reader of the variants found no broken one.
    easier_known : bool
        True if easy items are remembered more often.
    tainted : bool
        True if one reference remembers published words.
    references_unparsed : float
        Share of the references' answers to variants that is wrong and not parsed.
    fresh_easier : float
        Points that variants of held-out items cost less than those of the benchmark.

    fresh_harder : float
        Points that the held-out set costs every model.
    newer : float
        Points that the held-out set costs the tested model beside. Nobody states the dates.
    fresh_touchy : float
        Points that the held-out set costs one reference beside.
    tau : float
        Standard deviation, in points, of how models suit the two sets.
    spread, fresh_spread : float
        Standard deviation of the items' difficulties, in logits: published, held-out.
    guess, fresh_guess : float
        Chance of a right answer that is not known: published, held-out (if another).
    fresh_options : int
        Options of a held-out item. The audit knows the options alone, not the chance.
    chosen : bool
        True if held-out items are chosen, out of a pool, by the references' own answers.
    knowing : int
        Number of references that know the same published answers.
    hidden : float
        Share of the tested model's answers on each set that is not parsed: above 0 of those that
        speak for a gap, below 0 of those against it.

    popular : float
        Spreads by which a published text is likelier than a held-out one.
    uses, uses_range : float
        Factor of the tested model on the likelihood of a text; half its range between references.
    even : bool
        True if likelihoods spread alike over texts whatever a model makes of them.
    sequenced, felt : float
        Spreads by which the published order is likelier; the tested model's factor on that.
    file : float
        Spreads by which every text and its orders are likelier because the tested model has read
        the whole file.

    Examples
    --------
    >>> World(wording=0.15, harder=0.05).facts()
    {'wording': 0.15, 'harder': 0.05}
    """

    # ability, memory, unparsed answers: whatever is asked
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
        """Return the facts that act: those that are not at their default."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: value for name, value, default in values if value != default}

    def known(self, n: int, rng: np.random.Generator) -> Known:
        """Draw which published items the tested model remembers.

        Parameters
        ----------
        n : int
            Number of published items.
        rng : numpy.random.Generator
            The generator.

        Returns
        -------
        Known
            The remembered items.
        """
        rank = ranks(n, rng, self.group)
        published = max(self.answers, self.wording)
        return Known(rank < self.answers, rank < published, rank < self.text)
