"""Join the outcomes of several logs to the items and answers of one run (pure).

Items are matched by a key that identifies them, never by their position in a log.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from math import lcm
from operator import attrgetter
from sys import intern
from typing import Any, TypeVar

from audit.benchmarks.rows import text_key
from audit.config.references import JOINED_MIN
from audit.core.errors import DataError
from audit.imports.record import MAX_OF, Imported, letter_index
from audit.imports.typed import numbers, undressed

K = TypeVar("K")
V = TypeVar("V")

# If at least this many items have equal names and equal outcomes in two sets, the items are taken
# to be the same.
_NAMES_MIN = 10
_ADVICE = "name them apart: audit import first=A.eval second=B.eval"
_TRIAL = (
    "Expected one row for each model, item and trial. Example: --map epoch=trial, if a column "
    "`trial` numbers the trials; else counts k/n, such as 3/10."
)
CHANGED_MAX = (
    # Largest share of a benchmark's items on which logs may disagree. The items on which they
    # disagree are left out.
    0.01
)
_TRIALS = attrgetter("right", "of")


@dataclass(frozen=True, slots=True)
class Answered:
    """Hold one model's outcome on one item in one epoch.

    k of n trials were right. k is None if no answer could be read.
    """

    right: int | None
    of: int
    answer: str | None
    error: str | None


@dataclass
class Joined:
    """Hold the items and answers of all logs of a run. The method `add` adds one log at a time.

    Attributes
    ----------
    items : dict
        {benchmark: {key: first outcome of the item}}.
    answers : dict
        {(model, benchmark): {key: outcomes by epoch}}.
    revisions : dict
        {model: revision of its weights}, for the models whose logs state the revision.
    changed : dict
        {benchmark: {key: how two logs differ about the item}}.
    partial : dict
        {(model, benchmark): what an unfinished log holds}.
    denominators : dict
        {(model, benchmark): least common denominator of the scores}, for scores that a log states
        as decimals.
    measures : set
        The (model, benchmark) pairs whose score is not a count of right answers.
    sampling : dict
        {(model, benchmark): settings with which replies were sampled}, if a log states these
        settings.
    cut_off : dict
        {(model, benchmark): [number of replies cut off at their token limit, number of replies
        whose log states whether they were cut off]}.
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
    # This maps a hash of each sample and epoch of a model to its log. The samples are stored as
    # 64-bit hashes, since a million names would take too much memory.
    _seen: dict[int, str] = field(default_factory=dict)
    # This maps each (model, benchmark) to the first task that was read.
    _tasks: dict[tuple[str, str], str] = field(default_factory=dict)

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
            Outcomes in the log, each of one model on one item.
        unfinished : str
            What an unfinished log holds; "" if the log is complete.
        sampling : str
            The settings with which the log's replies were sampled; "" if unknown.

        Raises
        ------
        DataError
            If a sample occurs twice, or logs contradict each other.
        """
        times: Counter[tuple[str, str, str, int]] = Counter()
        # The items of this log whose cell holds another task: all, and those that this task repeats.
        log_keys: set[tuple[str, str, str]] = set()
        repeated: set[tuple[str, str, str]] = set()
        for outcome in outcomes:
            self._check_new(log, outcome)
            cell = (outcome.model, outcome.benchmark)
            if outcome.task != self._tasks.setdefault(cell, outcome.task):
                item = (*cell, outcome.key)
                if item not in log_keys and outcome.key in self.answers[cell]:
                    repeated.add(item)
                log_keys.add(item)
            name = (*cell, outcome.key, outcome.epoch)
            times[name] += 1  # a benchmark may contain the same text twice
            key = outcome.key if times[name] == 1 else f"{outcome.key}#{times[name]}"
            self._take(log, key, outcome)
            if times[name] > 1:
                self._compare(log, outcome.key, outcome, key)
            if unfinished:
                self.partial[cell] = unfinished
            if sampling:
                self.sampling.setdefault(cell, set()).add(sampling)
            if outcome.cut_off is not None:
                replies = self.cut_off.setdefault(cell, [0, 0])
                replies[0] += outcome.cut_off
                replies[1] += 1
            if outcome.of > 1:
                self._count_trials(outcome)
        if len(repeated) > CHANGED_MAX * len(log_keys):
            raise DataError(
                f"{len(repeated)} items of {log} are items of another task with the same benchmark "
                f"too. Expected tasks without common items. Example: leave {log} out, or --key text "
                "if the tasks number their items alike."
            )

    def _count_trials(self, outcome: Imported) -> None:
        """Record whether an outcome's score counts right answers.

        A score that does not is marked in `measures`. For other decimal scores, the outcome's n is
        included in the common denominator.
        """
        cell = (outcome.model, outcome.benchmark)
        if outcome.measure:
            self.measures.add(cell)
        elif not outcome.counted and (before := self.denominators.get(cell, 1)) <= MAX_OF:
            self.denominators[cell] = lcm(before, outcome.of)

    def _check_new(self, log: str, outcome: Imported) -> None:
        model, revision = outcome.model, outcome.revision
        name = hash((model, outcome.benchmark, outcome.task, outcome.sample, outcome.epoch))
        if (before := self._seen.get(name)) is not None:
            where = f"twice in {log}" if before == log else f"in {before} and in {log}"
            repeat = f"Sample {outcome.sample[:80]!r} of {model} on {outcome.benchmark} is {where}"
            advice = _TRIAL if before == log else f"Leave one out, or {_ADVICE}."
            raise DataError(f"{repeat}: a repeat, or two models under one name. {advice}")
        self._seen[name] = log
        if revision and self.revisions.setdefault(model, revision) != revision:
            weights = f"the weights {self.revisions[model]} in one log and {revision} in {log}"
            raise DataError(
                f"{model} has {weights}: two models under one name. Expected one, or {_ADVICE}."
            )

    def _take(self, log: str, key: str, outcome: Imported) -> None:
        benchmark = outcome.benchmark
        known = self.items.setdefault(benchmark, {}).setdefault(key, outcome)
        item = known if known is outcome else _filled(known, outcome)
        if item is not known:
            self.items[benchmark][key] = item
        if _differ(item, outcome):
            self._compare(log, key, outcome, key)
        answers = self.answers.setdefault((outcome.model, benchmark), {})
        answer = _put_back(item, outcome, outcome.answer)
        epoch = Answered(outcome.right, outcome.of, answer, outcome.error)
        answers.setdefault(intern(key), []).append(epoch)

    def _compare(self, log: str, key: str, outcome: Imported, changed: str) -> None:
        """Mark an item as changed if two rows of the logs disagree about its key or its options."""
        known = self.items[outcome.benchmark][key]
        if _differ(known, outcome):
            outcome_text = f"the key {_key(outcome)[:60]!r} of {len(outcome.options)} options"
            known_text = f"{_key(known)[:60]!r} of {len(known.options)} for {known.model}"
            reason = (
                f"{outcome.sample[:80]!r} has {outcome_text} for {outcome.model} in {log}, "
                f"and {known_text}"
            )
            self.changed.setdefault(outcome.benchmark, {}).update({key: reason, changed: reason})


def _filled(known: Imported, outcome: Imported) -> Imported:
    """Return an item, completed with the options, key, stratum and date that another log states."""
    more: dict[str, Any] = {}
    if outcome.stratum and not known.stratum:
        more["stratum"] = outcome.stratum
    if outcome.date and not known.date:
        more["date"] = outcome.date
    if outcome.options and not known.options:
        more |= {"options": outcome.options, "gold": outcome.gold}
    if outcome.target and not known.target:
        more["target"] = outcome.target
    return replace(known, **more) if more else known


def _put_back(known: Imported, outcome: Imported, answer: str | None) -> str | None:
    """Return an answer in the run's order of the options.

    If the log has the options in another order, the answer's letter is converted.
    """
    options = outcome.options
    if options == known.options:
        return answer
    place = letter_index(answer, len(options)) if answer and answer.isalpha() else None
    if place is None or options[place] not in known.options:
        return answer
    return chr(65 + known.options.index(options[place]))


def _differ(known: Imported, outcome: Imported) -> bool:
    """Return whether two logs disagree on the key or the number of options of an item.

    An item with a single option also counts as a disagreement, since it is not a question.
    """
    options = outcome.options
    if (known.options, known.gold, known.target) == (options, outcome.gold, outcome.target):
        return len(options) == 1
    if 1 in (len(known.options), len(options)) or _conflict(len(known.options), len(options)):
        return True
    if _conflict(_right_option(known), _right_option(outcome)):
        return True
    return _other_target(known.target, outcome.target)


def _conflict(known: object, other: object) -> bool:
    """Return whether two logs both state a value, and the values differ."""
    return bool(known and other) and known != other


def _other_target(known: str, other: str) -> bool:
    """Return whether two keys certainly differ.

    Numbers are compared by value. A word and a number may mean the same, so they are not taken to
    differ.
    """
    if not _conflict(known, other):
        return False
    values = numbers(known), numbers(other)
    if any(values):
        return all(values) and not values[0] & values[1]
    return undressed(known).casefold() != undressed(other).casefold()


def _right_option(item: Imported) -> str:
    return "" if item.gold is None else item.options[item.gold].strip()


def _key(item: Imported) -> str:
    return _right_option(item) or item.target


def rejoin_by_text(joined: Joined) -> None:
    """Join items by their text if the keys of the same items differ between logs.

    For example, the keys differ if the options were shuffled.

    Parameters
    ----------
    joined : Joined
        The outcomes of all logs. The object is changed in place.

    Notes
    -----
    A benchmark is not changed if every model already has nearly all items of the benchmark, or if
    the items have no text. If two items of a model have the same text, the text identifies neither
    item. For example, the same question may be asked about several passages.
    """
    for benchmark, items in joined.items.items():
        cells = _answers_to(joined, benchmark)
        fewest = min(map(len, cells), default=len(items))
        if fewest >= JOINED_MIN * len(items):
            continue
        for keys in _by_words(items).values():
            if len(keys) > 1 and all(len(answers.keys() & set(keys)) < 2 for answers in cells):
                for other in keys[1:]:
                    _merge(joined, benchmark, cells, keys[0], other)


def _answers_to(joined: Joined, benchmark: str) -> list[dict[str, list[Answered]]]:
    """Return the answers of each model to a benchmark, as one mapping for each model."""
    return [answers for (_, name), answers in joined.answers.items() if name == benchmark]


def _by_words(items: Mapping[str, Imported]) -> dict[str, list[str]]:
    """Map the hash of a text with its options to the keys of all items with this text and these
    options.

    Items without a text are left out.
    """
    keys: dict[str, list[str]] = {}
    for key, item in items.items():
        if item.text:
            keys.setdefault(text_key(item.text, item.options), []).append(key)
    return keys


def _merge(
    joined: Joined,
    benchmark: str,
    cells: Sequence[dict[str, list[Answered]]],
    first: str,
    other: str,
) -> None:
    """Move the answers to one item to another item with the same text."""
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
    """Remove the items on which logs disagree.

    Returns
    -------
    dict
        {benchmark: number of removed items}.

    Raises
    ------
    DataError
        If logs disagree on more than a few items.
    """
    numbers_changed: dict[str, int] = {}
    for benchmark, changed in joined.changed.items():
        n = len(joined.items[benchmark])
        if len(changed) > CHANGED_MAX * n:
            share = f"{len(changed)} of {n:,} items of {benchmark} are not the same in all logs"
            raise DataError(
                f"{share}: {min(changed.values())}. "
                "Of two versions of a benchmark, import only one."
            )
        _leave_out(joined, benchmark, changed)
        numbers_changed[benchmark] = len(changed)
    return numbers_changed


def match_strata(joined: Joined, benchmark: str, held_out: str) -> int:
    """Remove held-out items until each stratum (group of items) has the same share in both sets.

    As many items as possible are kept. Within a stratum, a hash of an item's key decides whether
    the item is kept.

    Returns
    -------
    int
        Number of removed items.

    Raises
    ------
    DataError
        If a stratum of the benchmark has no held-out item.
    """
    fresh = joined.items[held_out]
    counts = Counter(map(attrgetter("stratum"), joined.items[benchmark].values()))
    fresh_keys: dict[str, list[str]] = {}
    for key in sorted(fresh, key=lambda key: sha256(key.encode()).digest()):
        fresh_keys.setdefault(fresh[key].stratum, []).append(key)
    if lacking := sorted(counts.keys() - fresh_keys.keys()):
        number = f"{counts[lacking[0]]:,} of {benchmark}"
        raise DataError(
            f"No held-out item is of the stratum {lacking[0]!r}, as {number} are. "
            "Expected held-out items of each stratum. Leave such items out, or compare without "
            "strata."
        )
    scale = min(len(fresh_keys[stratum]) / n for stratum, n in counts.items())
    gone: list[str] = []
    for stratum, keys in fresh_keys.items():
        gone += keys[round(scale * counts[stratum]) :]
    _leave_out(joined, held_out, gone)
    return len(gone)


def _leave_out(joined: Joined, benchmark: str, keys: Collection[str]) -> None:
    for key in keys:
        joined.items[benchmark].pop(key, None)
    for answers in _answers_to(joined, benchmark):
        for key in keys:
            answers.pop(key, None)


def only(joined: Joined, models: set[str]) -> Joined:
    """Return the outcomes of some models, with the items that these models have."""
    answers = {cell: outcomes for cell, outcomes in joined.answers.items() if cell[0] in models}
    answered: dict[str, set[str]] = {}
    for (_, benchmark), outcomes in answers.items():
        answered.setdefault(benchmark, set()).update(outcomes)
    return replace(
        joined,
        items={name: _only(joined.items[name], keys) for name, keys in answered.items()},
        answers=answers,
        revisions=_only(joined.revisions, models),
        partial=_only(joined.partial, answers),
        denominators=_only(joined.denominators, answers),
        measures=joined.measures & answers.keys(),
        sampling=_only(joined.sampling, answers),
        cut_off=_only(joined.cut_off, answers),
    )


def _only(mapping: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries of a mapping whose keys are among the given keys."""
    return {key: value for key, value in mapping.items() if key in keys}


def leave_out_shared(joined: Joined, benchmark: str, held_out: str) -> int:
    """Remove held-out items that also belong to the benchmark.

    Returns
    -------
    int
        Number of removed items.

    Raises
    ------
    DataError
        If more than a few items are shared.

    Notes
    -----
    Two items are the same if their texts are the same. If several items of a set have the same text
    but different keys, this text identifies no item.

    If the logs contain no texts, names are compared instead. Two tables may use the same names,
    such as row numbers, for different items. Therefore items with the same name are taken to be the
    same only if every model has equal outcomes on both items.
    """
    published, fresh = joined.items[benchmark], joined.items[held_out]
    first, second = _by_words(published), _by_words(fresh)
    alike = set()
    for words in first.keys() & second.keys():
        only_one = len(first[words]) == len(second[words]) == 1
        if only_one or set(first[words]) & set(second[words]):
            alike.add(second[words][0])
    shared = published.keys() & fresh.keys()
    named = {key for key in shared if not (published[key].text and fresh[key].text)}
    if len(named) >= _NAMES_MIN and _answered_alike(joined, benchmark, held_out, named):
        alike |= named
    if len(alike) > CHANGED_MAX * len(fresh):
        item = fresh[min(alike)]
        share = f"{len(alike)} of {len(fresh):,} items of {held_out} are items of {benchmark} too"
        raise DataError(
            f"{share}, such as {(item.text or item.sample)[:80]!r}: they are not held out. "
            "Expected other items of the same kind."
        )
    _leave_out(joined, held_out, alike)
    return len(alike)


def _answered_alike(joined: Joined, benchmark: str, held_out: str, keys: Collection[str]) -> bool:
    """Return whether each model has the same outcome on each of these items in both benchmarks.

    Return False if all these outcomes have the same value, since this agreement shows nothing.
    """
    outcomes = set()
    for model in joined.models:
        published = joined.answers.get((model, benchmark), {})
        fresh = joined.answers.get((model, held_out), {})
        for key in keys & published.keys() & fresh.keys():
            trials = list(map(_TRIALS, published[key]))
            if trials != list(map(_TRIALS, fresh[key])):
                return False
            outcomes.add(trials[0])
    return len(outcomes) > 1


def check_joined(joined: Joined, benchmarks: Sequence[str]) -> None:
    """Check that every model has nearly all items of each benchmark.

    Only items that all models have are analysed, and these items must represent the benchmark.

    Raises
    ------
    DataError
        If a model lacks too many items of a benchmark.
    """
    for reason in lacking(joined, benchmarks).values():
        raise DataError(
            f"{reason}; expected at least {JOINED_MIN:.0%}, since only items that every model has "
            "count. Leave the model out, or "
            "join by the items' words: --key text."
        )


def lacking(joined: Joined, benchmarks: Sequence[str]) -> dict[str, str]:
    """Return the models that lack too many items of some benchmark.

    Returns
    -------
    dict
        {model: sentence on how many items the model has}.
    """
    reasons: dict[str, str] = {}
    for benchmark, model in product(benchmarks, joined.models):
        n = len(joined.items[benchmark])
        answered = len(joined.answers.get((model, benchmark), ()))
        if answered < JOINED_MIN * n:
            share = f"{answered:,} of {n:,} items of {benchmark} ({answered / n:.0%})"
            reasons.setdefault(model, f"{model} has {share}")
    return reasons


def shares(joined: Joined, model: str, benchmark: str) -> dict[str, list[float | None]]:
    """Return the share of one model's trials that were right, for each item.

    Returns
    -------
    dict
        {key of the item: list with the share (0 to 1) in each epoch}. A share is None if no answer
        could be read.
    """
    answers = joined.answers.get((model, benchmark), {})
    return {key: list(map(_share, epochs)) for key, epochs in answers.items()}


def _share(epoch: Answered) -> float | None:
    return None if epoch.right is None else epoch.right / epoch.of


@dataclass(frozen=True)
class Counts:
    """Count one model's items of one benchmark.

    The attributes are the number of items, the number of items without an answer, and the mean
    score of the items with an answer. `lacking` is the number of items that other models have and
    this model lacks.

    In the mean, each item has the same weight, whatever its number of trials. Each epoch of an item
    has the same weight.
    """

    model: str
    benchmark: str
    items: int
    accuracy: float
    unparsed: int
    lacking: int


def counts(joined: Joined) -> list[Counts]:
    """Return the counts of each model on each benchmark, sorted by model and benchmark."""
    rows = []
    for (model, benchmark), answers in sorted(joined.answers.items()):
        means = []
        for epochs in answers.values():
            shares = [epoch.right / epoch.of for epoch in epochs if epoch.right is not None]
            if shares:
                means.append(sum(shares) / len(shares))
        n, accuracy = len(answers), sum(means) / len(means) if means else float("nan")
        lacking = len(joined.items[benchmark]) - n
        rows.append(Counts(model, benchmark, n, accuracy, n - len(means), lacking))
    return rows
