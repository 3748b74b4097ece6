"""Outcomes of several logs -> items and answers of one run. Pure: items are joined by key, never by
their place."""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from math import lcm
from sys import intern
from typing import Any, TypeVar

from audit.benchmarks.rows import text_key
from audit.config.references import JOINED_MIN
from audit.core.errors import DataError
from audit.imports.record import MAX_OF, Imported, letter_index
from audit.imports.typed import numbers, undressed

K = TypeVar("K")
V = TypeVar("V")

_NAMES_MIN = 10  # So many items of equal name and outcome in two sets are not there by chance.
_APART = "name them apart: audit import first=A.eval second=B.eval"
CHANGED_MAX = (
    # Largest share of a benchmark's items that may differ between logs; these items are left out.
    0.01
)


@dataclass(frozen=True, slots=True)
class Answered:
    """One model's outcome on one item, in one epoch: k of n trials were right, or k is None."""

    right: int | None
    of: int
    answer: str | None
    error: str | None


@dataclass
class Joined:
    """Hold the items and answers of all logs of a run. `add` fills it, one log at a time.

    Attributes
    ----------
    items : dict
        {benchmark: {key: first outcome of the item}}.
    answers : dict
        {(model, benchmark): {key: outcomes by epoch}}.
    revisions : dict
        {model: revision of its weights}, if a log states it.
    changed : dict
        {benchmark: {key: how two logs differ about the item}}.
    partial : dict
        {(model, benchmark): what an unfinished log holds}.
    denominators : dict
        {(model, benchmark): least common denominator of the scores that a log states as decimals}.
    measures : set
        (model, benchmark) whose score counts no right answers.
    sampling : dict
        {(model, benchmark): how replies were drawn}, if a log states it.
    cut_off : dict
        {(model, benchmark): [replies cut off at their token limit, replies of which this is
        known]}.
    """

    items: dict[str, dict[str, Imported]] = field(default_factory=dict)
    answers: dict[tuple[str, str], dict[str, list[Answered]]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    changed: dict[str, dict[str, str]] = field(default_factory=dict)
    partial: dict[tuple[str, str], str] = field(default_factory=dict)
    denominators: dict[tuple[str, str], int] = field(default_factory=dict)
    measures: set[tuple[str, str]] = field(default_factory=set)
    sampling: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    cut_off: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    # The keys are salted 64-bit hashes, as a million names would take much memory.
    _seen: dict[int, str] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        return sorted({model for model, _ in self.answers})

    def add(
        self, log: str, outcomes: Iterable[Imported], unfinished: str = "", sampling: str = ""
    ) -> None:
        """Add the outcomes of a log.

        Parameters
        ----------
        log : str
            Name of the log, for messages.
        outcomes : iterable of Imported
            The outcomes.
        unfinished : str
            What the log lacks, "" if it is complete.
        sampling : str
            How its replies were drawn, "" if unknown.

        Raises
        ------
        DataError
            If a sample occurs twice, or logs contradict each other.
        """
        times: Counter[tuple[str, str, str, int]] = Counter()
        for one in outcomes:
            self._check_new(log, one)
            same = (one.model, one.benchmark, one.key, one.epoch)
            times[same] += 1  # A benchmark may hold the same text twice.
            key = one.key if times[same] == 1 else f"{one.key}#{times[same]}"
            self._take(log, key, one)
            if times[same] > 1:
                self._compare(log, one.key, one, key)
            if unfinished:
                self.partial[one.model, one.benchmark] = unfinished
            if sampling:
                self.sampling.setdefault((one.model, one.benchmark), set()).add(sampling)
            if one.cut_off is not None:
                told = self.cut_off.setdefault((one.model, one.benchmark), [0, 0])
                told[0] += one.cut_off
                told[1] += 1
            if one.of > 1:
                self._count_trials(one)

    def _count_trials(self, one: Imported) -> None:
        """Note a share: of a score that counts no right answers, or its part in the common number
        of trials."""
        cell = (one.model, one.benchmark)
        if one.measure:
            self.measures.add(cell)
        elif not one.counted and (before := self.denominators.get(cell, 1)) <= MAX_OF:
            self.denominators[cell] = lcm(before, one.of)

    def _check_new(self, log: str, one: Imported) -> None:
        name = hash((one.model, one.benchmark, one.sample, one.epoch))
        if (before := self._seen.get(name)) is not None:
            where = f"twice in {log}" if before == log else f"in {before} and in {log}"
            found = f"Sample {one.sample[:80]!r} of {one.model} on {one.benchmark} is {where}"
            raise DataError(
                f"{found}: a repeat, or two models under one name. Leave one out, or {_APART}."
            )
        self._seen[name] = log
        if one.revision and self.revisions.setdefault(one.model, one.revision) != one.revision:
            found = f"{one.model} has the weights {self.revisions[one.model]} in one log and {one.revision} in {log}"
            raise DataError(f"{found}: two models under one name. Expected one, or {_APART}.")

    def _take(self, log: str, key: str, one: Imported) -> None:
        known = self.items.setdefault(one.benchmark, {}).setdefault(key, one)
        told = known if known is one else _filled(known, one)
        if told is not known:
            self.items[one.benchmark][key] = told
        if _differ(told, one):
            self._compare(log, key, one, key)
        epochs = self.answers.setdefault((one.model, one.benchmark), {}).setdefault(intern(key), [])
        epochs.append(Answered(one.right, one.of, _put_back(told, one, one.answer), one.error))

    def _compare(self, log: str, key: str, one: Imported, changed: str) -> None:
        """Mark an outcome's item as changed if another log, or another row of this one, has another
        key for it."""
        known = self.items[one.benchmark][key]
        if _differ(known, one):
            found = (
                f"{one.sample[:80]!r} has the key {_key(one)[:60]!r} of {len(one.options)} options for "
                f"{one.model} in {log}, and {_key(known)[:60]!r} of {len(known.options)} for {known.model}"
            )
            self.changed.setdefault(one.benchmark, {}).update({key: found, changed: found})


def _filled(known: Imported, one: Imported) -> Imported:
    """Return what is known of an item, with what another log adds: its options and key, its
    stratum, its date."""
    more: dict[str, Any] = {}
    if one.stratum and not known.stratum:
        more["stratum"] = one.stratum
    if one.date and not known.date:
        more["date"] = one.date
    if one.options and not known.options:
        more |= {"options": one.options, "gold": one.gold}
    if one.target and not known.target:
        more["target"] = one.target
    return replace(known, **more) if more else known


def _put_back(known: Imported, one: Imported, answer: str | None) -> str | None:
    """Return the answer, its letter as the options stand in the run, if this log has them in
    another order."""
    if one.options == known.options:
        return answer
    place = letter_index(answer, len(one.options)) if answer and answer.isalpha() else None
    if place is None or one.options[place] not in known.options:
        return answer
    return chr(65 + known.options.index(one.options[place]))


def _differ(known: Imported, one: Imported) -> bool:
    """Return whether two logs disagree on the key or the number of options of an item. A single
    option is no question, and counts as a disagreement.
    """
    if (known.options, known.gold, known.target) == (one.options, one.gold, one.target):
        return len(one.options) == 1
    counts, keys = (
        (len(known.options), len(one.options)),
        (_right_option(known), _right_option(one)),
    )
    others = (all(pair) and pair[0] != pair[1] for pair in (counts, keys))
    return (
        1 in counts
        or any(others)
        or (known.target != one.target and _other_target(known.target, one.target))
    )


def _other_target(known: str, one: str) -> bool:
    """Return whether two keys are two: numbers are compared by value, and a word is not compared
    with a number."""
    if known == one or not known or not one:
        return False
    values = numbers(known), numbers(one)
    if any(values):
        return all(values) and not values[0] & values[1]
    return undressed(known).casefold() != undressed(one).casefold()


def _right_option(one: Imported) -> str:
    return "" if one.gold is None else one.options[one.gold].strip()


def _key(one: Imported) -> str:
    return _right_option(one) or one.target


def rejoin_by_text(joined: Joined) -> None:
    """Join by their words the items of a benchmark that logs name differently, as where options
    were shuffled anew.

    A benchmark is left as it is if every model has nearly all of its items already, or if items
    have no words. Words that a model has in two items name neither: questions about several
    passages may be the same."""
    for benchmark, items in joined.items.items():
        cells = [answers for (_, name), answers in joined.answers.items() if name == benchmark]
        if all(len(answers) >= JOINED_MIN * len(items) for answers in cells):
            continue
        for first, *others in _by_words(items).values():
            if others and all(len(answers.keys() & {first, *others}) < 2 for answers in cells):
                for other in others:
                    _merge(joined, benchmark, cells, first, other)


def _by_words(items: Mapping[str, Imported]) -> dict[str, list[str]]:
    """Return the keys of items by a hash of their text and options; items without a text are left
    out."""
    found: dict[str, list[str]] = {}
    for key, item in items.items():
        if item.text:
            found.setdefault(text_key(item.text, item.options), []).append(key)
    return found


def _merge(
    joined: Joined,
    benchmark: str,
    cells: Sequence[dict[str, list[Answered]]],
    first: str,
    other: str,
) -> None:
    """Move the answers of one item to another item with the same words."""
    known, item = joined.items[benchmark][first], joined.items[benchmark].pop(other)
    if _differ(known, item):
        joined.changed.setdefault(benchmark, {})[first] = (
            f"{item.sample[:80]!r} has another key in another log"
        )
    for answers in cells:
        if other in answers:
            epochs = answers.pop(other)
            answers[first] = []
            for epoch in epochs:
                answer = _put_back(known, item, epoch.answer)
                answers[first].append(replace(epoch, answer=answer))


def leave_out_changed(joined: Joined) -> dict[str, int]:
    """Remove items on which logs disagree, and return their number by benchmark.

    Raises DataError if more than a few items differ.
    """
    for benchmark, changed in joined.changed.items():
        if len(changed) > CHANGED_MAX * (n := len(joined.items[benchmark])):
            found = f"{len(changed)} of {n:,} items of {benchmark} are not the same in all logs"
            raise DataError(
                f"{found}: {min(changed.values())}. Of two versions of a benchmark, import one."
            )
        _leave_out(joined, benchmark, changed)
    return {benchmark: len(changed) for benchmark, changed in joined.changed.items()}


def match_strata(joined: Joined, benchmark: str, held_out: str) -> int:
    """Remove held-out items until every stratum has the same share of them as of the benchmark.

    Returns the number of removed items. As many items as possible stay. A hash of its key decides
    whether an item of a stratum stays. Raises DataError if a stratum has no held-out item.
    """
    ours = Counter(one.stratum for one in joined.items[benchmark].values())
    theirs: dict[str, list[str]] = {}
    for key in sorted(joined.items[held_out], key=lambda key: sha256(key.encode()).digest()):
        theirs.setdefault(joined.items[held_out][key].stratum, []).append(key)
    if lacking := sorted(ours.keys() - theirs.keys()):
        found = f"No held-out item is of the stratum {lacking[0]!r}, as {ours[lacking[0]]:,} of {benchmark} are"
        raise DataError(
            f"{found}. Expected some of each; leave such items out, or compare without strata."
        )
    scale = min(len(theirs[one]) / n for one, n in ours.items())
    gone: list[str] = []
    for stratum, keys in theirs.items():
        gone += keys[round(scale * ours[stratum]) :]
    _leave_out(joined, held_out, gone)
    return len(gone)


def _leave_out(joined: Joined, benchmark: str, keys: Collection[str]) -> None:
    of_models = [found for (_, name), found in joined.answers.items() if name == benchmark]
    for found in (joined.items[benchmark], *of_models):
        for key in keys:
            found.pop(key, None)  # type: ignore[attr-defined]


def only(joined: Joined, models: set[str]) -> Joined:
    """Return the outcomes of some models and the items that these models have."""
    answers = {cell: found for cell, found in joined.answers.items() if cell[0] in models}
    there: dict[str, set[str]] = {}
    for (_, benchmark), found in answers.items():
        there.setdefault(benchmark, set()).update(found)
    return replace(
        joined,
        items={name: _only(joined.items[name], keys) for name, keys in there.items()},
        answers=answers,
        revisions=_only(joined.revisions, models),
        partial=_only(joined.partial, answers),
        denominators=_only(joined.denominators, answers),
        measures=joined.measures & answers.keys(),
        sampling=_only(joined.sampling, answers),
        cut_off=_only(joined.cut_off, answers),
    )


def _only(mapping: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries of a mapping with these keys."""
    return {key: value for key, value in mapping.items() if key in keys}


def leave_out_shared(joined: Joined, benchmark: str, held_out: str) -> int:
    """Leave out held-out items that are items of the benchmark as well, and return how many.

    Items are the same if their words are. Words that a set has in several items name none of them,
    unless the items have one key. Where logs hold no words, items are the same if their names are
    and every model has the same answers to them: two tables may number other items alike.

    Raises DataError if more than a few are shared.
    """
    ours, theirs = joined.items[benchmark], joined.items[held_out]
    first, second = _by_words(ours), _by_words(theirs)
    alike = set()
    for words in first.keys() & second.keys():
        only_one = len(first[words]) == len(second[words]) == 1
        if only_one or set(first[words]) & set(second[words]):
            alike.add(second[words][0])
    shared = ours.keys() & theirs.keys()
    named = {key for key in shared if not (ours[key].text and theirs[key].text)}
    if len(named) >= _NAMES_MIN and _answered_alike(joined, benchmark, held_out, named):
        alike |= named
    if len(alike) > CHANGED_MAX * len(theirs):
        some = theirs[min(alike)]
        found = f"{len(alike)} of {len(theirs):,} items of {held_out} are items of {benchmark} too"
        found += f", such as {(some.text or some.sample)[:80]!r}"
        raise DataError(f"{found}: they are not held out. Expected other items of the same kind.")
    _leave_out(joined, held_out, alike)
    return len(alike)


def _answered_alike(joined: Joined, benchmark: str, held_out: str, keys: Collection[str]) -> bool:
    """Return whether every model has the same outcomes on these items of both benchmarks, and these
    outcomes are not all equal.
    """
    outcomes = set()
    for model in joined.models:
        ours, theirs = (joined.answers.get((model, name), {}) for name in (benchmark, held_out))
        for key in keys & ours.keys() & theirs.keys():
            first, second = (
                [(one.right, one.of) for one in found[key]] for found in (ours, theirs)
            )
            if first != second:
                return False
            outcomes.add(first[0])
    return len(outcomes) > 1


def check_joined(joined: Joined, benchmarks: Sequence[str]) -> None:
    """Raise DataError if a model lacks so many items that the common items no longer stand for the
    benchmark.
    """
    for found in lacking(joined, benchmarks).values():
        raise DataError(
            f"{found}; expected at least {JOINED_MIN:.0%}, as only items of every model count. Leave it out, or "
            "join by the items' words: --key text."
        )


def lacking(joined: Joined, benchmarks: Sequence[str]) -> dict[str, str]:
    """Return the models that lack too many items of a benchmark, each with how many it has."""
    found: dict[str, str] = {}
    for benchmark, model in product(benchmarks, joined.models):
        n, there = len(joined.items[benchmark]), len(joined.answers.get((model, benchmark), ()))
        if there < JOINED_MIN * n:
            found.setdefault(
                model, f"{model} has {there:,} of {n:,} items of {benchmark} ({there / n:.0%})"
            )
    return found


def shares(joined: Joined, model: str, benchmark: str) -> dict[str, list[float | None]]:
    """Return by item the share of right trials in each epoch; None if it could not be read."""
    answers = joined.answers.get((model, benchmark), {})
    by_item: dict[str, list[float | None]] = {}
    for key, epochs in answers.items():
        by_item[key] = [None if one.right is None else one.right / one.of for one in epochs]
    return by_item


@dataclass(frozen=True)
class Counts:
    """Count one model's items of one benchmark.

    Attributes hold the number of items, the number without an answer, and the mean over the others.
    `lacking` counts items that other models have and this one has not. Several trials of an item
    weigh as one item, and each epoch as much as another.
    """

    model: str
    benchmark: str
    items: int
    accuracy: float
    unparsed: int
    lacking: int


def counts(joined: Joined) -> list[Counts]:
    """Return the counts of each model and benchmark, sorted."""
    found = []
    for (model, benchmark), answers in sorted(joined.answers.items()):
        means = []
        for epochs in answers.values():
            shares = [one.right / one.of for one in epochs if one.right is not None]
            if shares:
                means.append(sum(shares) / len(shares))
        n, accuracy = len(answers), sum(means) / len(means) if means else float("nan")
        lacking = len(joined.items[benchmark]) - n
        found.append(Counts(model, benchmark, n, accuracy, n - len(means), lacking))
    return found
