"""Read a log whose samples have scores (pure).

The module chooses one score, compares its mean with the total that the log states, and yields the
outcomes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from audit.benchmarks.rows import text_key
from audit.imports.record import Imported, Log, Wanted, brief
from audit.imports.scores import Column, Outcome, check_total, choose_score, mean_of, shown


@dataclass(slots=True)
class Sample:
    """Hold one model's answer to one item, with the facts that a log states about this answer.

    Attributes
    ----------
    scores : mapping
        Maps the name of each score to its outcome (k, n): k of n trials were right.
    record : Any
        The JSON object of the sample. `--key` names a field of this object.
    same : str
        Name of the item, if it is the same in the logs of all models; "" if the item is identified
        by its text.
    unscored : bool
        Whether the answer was not graded. The scores are then ignored.
    cut_off : bool or None
        Whether the reply ended at its token limit; None if the log does not state it.
    task : str
        Name of the task in the log; "" if the log does not state it.
    """

    model: str
    benchmark: str
    name: str
    where: str
    scores: Mapping[str, Outcome]
    record: Any
    text: str = ""
    options: tuple[str, ...] = ()
    gold: int | None = None
    answer: Any = None
    target: str = ""
    epoch: int = 1
    error: str | None = None
    same: str = ""
    unscored: bool = False
    cut_off: bool | None = None
    task: str = ""

    def outcome(self, score: str) -> Outcome:
        """Return the outcome (k, n) of a score: k of n trials were right.

        The outcome is (None, 1) if the sample lacks the score or was not graded.
        """
        if self.unscored or self.error is not None:
            return None, 1
        return self.scores.get(score, (None, 1))

    def imported(self, score: str, wanted: Wanted) -> Imported:
        """Convert the sample to the outcome of one score."""
        right, of = self.outcome(score)
        words = text_key(self.text, self.options) if self.text else self.name
        return Imported(
            model=self.model,
            benchmark=self.benchmark,
            key=wanted.key_of(self.record, words, self.where, self.same),
            sample=self.name,
            right=right,
            of=of,
            text=self.text or None,
            options=self.options,
            gold=self.gold,
            answer=None if self.answer is None else brief(self.answer),
            epoch=self.epoch,
            error=None if self.error is None else brief(self.error),
            target="" if self.options else brief(self.target),
            cut_off=self.cut_off,
            task=self.task,
        )


# A function of this type yields the samples. It is called each time the samples are needed, so that
# a large log need not be held in memory.
Samples = Callable[[], Iterable[Sample]]
Choose = Callable[[Mapping[str, Column], str, str], str]
_NO_TOTALS: Mapping[str, Any] = MappingProxyType({})


def graded_log(
    tool: str,
    path: Path,
    samples: Samples,
    wanted: Wanted,
    *,
    choose: Choose = choose_score,
    totals: Mapping[str, Any] = _NO_TOTALS,
    sampling: str = "",
) -> Log:
    """Return a log whose samples have one or several scores.

    Parameters
    ----------
    choose : callable
        A function that returns the name of the score to read, given the outcomes of all scores.
    totals : mapping
        Maps a score to the mean that the log states for it.
    sampling : str
        The settings with which replies were sampled, as the log states them.

    Raises
    ------
    DataError
        If no score can be chosen. The error is also raised if the log states a mean that differs
        from the mean of  the samples.
    """
    columns: dict[str, Column] = {}
    for number, sample in enumerate(samples()):
        for name in sample.scores:
            columns.setdefault(name, {})[str(number)] = sample.outcome(name)
    score = choose(columns, wanted.metric, str(path))
    column = columns.get(score, {})
    check_total(totals.get(score), column, score, str(path))
    return Log(
        tool,
        "",
        _outcomes(samples, score, wanted),
        score,
        _others(columns, score, path.name),
        sampling=sampling,
    )


def _outcomes(samples: Samples, score: str, wanted: Wanted) -> Iterator[Imported]:
    for sample in samples():
        yield sample.imported(score, wanted)


def _others(columns: Mapping[str, Column], score: str, name: str) -> list[str]:
    """Return a note with the scores that differ from the score that is read.

    The returned list holds this single sentence; it is empty if all scores agree.
    """
    read = columns.get(score, {})
    other = []
    for score_name, column in columns.items():
        if column != read:
            other.append(f"{score_name} {shown(mean_of(column.values()))}")
    if not other:
        return []
    read_score = f"{name}: {score} {shown(mean_of(read.values()))} is read"
    return [f"{read_score}; other scores disagree ({', '.join(other)}): choose by --metric"]
