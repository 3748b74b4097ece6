"""Read a log whose samples have their scores: choose one, check the log's total of it, yield the
outcomes (pure)."""

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
    """Hold one model's answer to one item, as a log has it.

    Attributes
    ----------
    scores : mapping
        Outcomes by the name of the score.
    record : Any
        The object that has the field which `--key` names.
    same : str
        Name of the item in every model's log; "" if its words identify it.
    unscored : bool
        Whether nothing was graded, whatever the scores are.
    cut_off : bool or None
        Whether the reply ended at its token limit; None if the log does not state it.
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

    def outcome(self, score: str) -> Outcome:
        """Return the outcome by a score; without a value if the sample lacks it or was not
        graded."""
        if self.unscored or self.error is not None:
            return None, 1
        return self.scores.get(score, (None, 1))

    def imported(self, score: str, wanted: Wanted) -> Imported:
        """Return the sample as the outcome of one score."""
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
        )


# Called each time samples are needed, so that a large log is not held in memory.
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
        Returns the name of the score to read, given all scores that disagree.
    totals : mapping
        Means that the log states, by score.
    sampling : str
        How replies were drawn, as the log states it.

    Raises
    ------
    DataError
        If no score can be chosen, or a stated mean is not the mean of the samples.
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
    """Return a sentence that names the scores that disagree with the one that is read; [] if all
    agree."""
    read = columns.get(score, {})
    other = []
    for score_name, column in columns.items():
        if column != read:
            other.append(f"{score_name} {shown(mean_of(column.values()))}")
    if not other:
        return []
    read_score = f"{name}: {score} {shown(mean_of(read.values()))} is read"
    return [f"{read_score}; other scores disagree ({', '.join(other)}): choose by --metric"]
