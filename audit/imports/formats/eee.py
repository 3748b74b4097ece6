"""Read Every Eval Ever (arXiv 2606.14516): an aggregate JSON file, and in the same folder a JSONL
file of samples with the outcomes.
"""

from collections.abc import Collection, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, DataError
from audit.export.eee import AGGREGATE, INSTANCE, UNPARSED, VERSION, validator
from audit.imports.graded import Sample
from audit.imports.record import (
    Imported,
    Log,
    Record,
    Records,
    Wanted,
    checked,
    document,
    epoch,
    letter_index,
    outcome,
    rows_of,
    texts_of,
)

_SAMPLES, _SCORE = "_samples.jsonl", "score"


def is_eee(first: Any) -> bool:
    """Return whether a JSON document is an aggregate or a sample of Every Eval Ever.

    Of a file with one object per line, the first line is the document to check.
    """
    return isinstance(first, dict) and {"schema_version", "evaluation_id"} <= set(first)


def read_eee(path: Path, wanted: Wanted) -> Log:
    """Return the log of an aggregate and its samples.

    Parameters
    ----------
    path : Path
        The aggregate file or the file of samples.
    wanted : Wanted
        How to read them.

    Raises
    ------
    ConfigError
        If the folder lacks the samples of the aggregate, or the aggregate of the samples.
    DataError
        If a field is missing or of a wrong type.
    """
    is_samples = path.name.endswith(_SAMPLES)
    aggregate = path.with_name(path.name.removesuffix(_SAMPLES) + ".json") if is_samples else path
    samples = path if is_samples else path.with_name(f"{path.stem}{_SAMPLES}")
    library: Record = {}
    names: set[str] = set()
    if aggregate.is_file():
        whole = _valid(document(aggregate), AGGREGATE, str(aggregate))
        library = whole["eval_library"]
        names = set(map(itemgetter("evaluation_name"), whole["evaluation_results"]))
        detailed = whole.get("detailed_evaluation_results") or {}
        if not samples.is_file() and "file_path" in detailed:
            samples = path.with_name(Path(detailed["file_path"]).name)
    if not samples.is_file():
        raise ConfigError(
            f"{path} holds only totals. Expected its samples in the same folder, such as "
            f"{samples.name}."
        )
    return Log(
        "every_eval_ever", str(library.get("version") or ""), _outcomes(samples, wanted, names)
    )


def _valid(content: Any, schema: str, where: str) -> Record:
    for error in validator(schema).iter_errors(content):
        at = "/".join(map(str, error.absolute_path)) or "the whole"
        raise DataError(
            f"{where} breaks the schema {VERSION} of Every Eval Ever at {at}: {error.message[:200]}."
        )
    return dict(content)


def _records(path: Path, wanted: Wanted, names: Collection[str]) -> Records:
    """Yield the records of one result of each evaluation.

    If the user named a result, the records of this result are yielded.
    """
    first: dict[str, str] = {}
    for where, row in rows_of(path, ".jsonl"):
        sample = _valid(row, INSTANCE, where)
        name, result = sample["evaluation_name"], str(sample.get("evaluation_result_id") or "")
        other = wanted.benchmark in names and name != wanted.benchmark
        if not other and result == (wanted.metric or first.setdefault(name, result)):
            yield where, sample


def _outcomes(path: Path, wanted: Wanted, names: Collection[str]) -> Iterator[Imported]:
    for where, sample in _records(path, wanted, names):
        choices = texts_of(sample["input"].get("choices") or (), where)
        reference = sample["input"]["reference"]
        text = checked(sample["input"]["raw"], where)
        failed = sample.get("error") or ""
        score = sample["evaluation"]["score"]
        value = sample["evaluation"]["is_correct"] if score <= 0 or score >= 1 else score
        attributions = sample["answer_attribution"]
        replies = (sample.get("output") or {}).get("raw") or [""]
        answer = attributions[-1]["extracted_value"] if attributions else replies[0]
        outcomes = {_SCORE: (None, 1) if failed else outcome(value, where)}
        yield Sample(
            model=wanted.model or sample["model_id"],
            benchmark=wanted.benchmark or sample["evaluation_name"],
            name=sample["sample_id"],
            where=where,
            scores=outcomes,
            record=sample,
            text=text,
            options=choices,
            gold=_gold(reference, choices),
            answer=answer,
            epoch=epoch((sample.get("metadata") or {}).get("epoch", "1")),
            error=None if failed in ("", UNPARSED) else failed,
            target=reference[0] if len(reference) == 1 else "",
        ).imported(_SCORE, wanted)


def _gold(reference: list[str], choices: tuple[str, ...]) -> int | None:
    """Return the index of the right option; None if it is unknown.

    The sample must have a single reference, which is the text or the letter of an option.
    """
    if len(reference) != 1:
        return None
    if reference[0] in choices:
        return choices.index(reference[0])
    return letter_index(reference[0], len(choices))
