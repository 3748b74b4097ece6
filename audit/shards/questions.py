"""Write the questions of a run to RUN_DIR/questions.arrow, and read them by position.

The file consists of record batches with 512 rows. The file is uncompressed and memory-mapped. A
task that needs questions 51,200 to 51,263 reads only one batch, however large the file is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.core.errors import BenchmarkError, ShardError
from audit.core.guarded_files import check_regular
from audit.core.records import Code, Item
from audit.shards.files import whole_file
from audit.shards.keys import column_array
from audit.shards.working_copy import local_file

QUESTIONS = "questions.arrow"
BATCH_ROWS = 512

QUESTION_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("benchmark", pa.string()),
        ("text", pa.string()),
        ("options", pa.list_(pa.string())),
        ("gold", pa.int16()),
        ("group", pa.string()),
        ("order", pa.list_(pa.int16())),
        ("target", pa.float64()),
    ]
)
_CODE = pa.struct([(name, pa.string()) for name in ("entry_point", "tests", "solution")])
CODE_SCHEMA = QUESTION_SCHEMA.append(
    pa.field("code", _CODE)
    # schema of a file of programming problems
)


def write_questions(run_dir: Path | str, questions: Iterable[Item]) -> int:
    """Write the questions of a run, in order, to questions.arrow, completely or not at all.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    questions : iterable of Item
        The questions, of which one batch is in memory at a time.

    Returns
    -------
    int
        Number of questions.

    Raises
    ------
    BenchmarkError
        If an id occurs twice, or if only some of the questions are programming problems.
    ShardError
        If the file cannot be written.
    """
    path = Path(run_dir) / QUESTIONS
    seen: set[int] = set()
    rest = iter(questions)
    step = list(islice(rest, BATCH_ROWS))
    schema = CODE_SCHEMA if step and step[0].code else QUESTION_SCHEMA
    with whole_file(path) as file, pa.ipc.new_file(file, schema) as writer:
        while step:
            for question in step:
                # Only the hash of each id is kept, because a run may have millions of ids.
                key = hash((question.benchmark, question.id))
                if key in seen:
                    raise BenchmarkError(
                        f"Question id {question.id!r} occurs twice in {question.benchmark}. "
                        "Expected unique ids, because rows are found by their id. Example: "
                        f"{question.id + '#2'!r}."
                    )
                seen.add(key)
            others = []
            for q in step:
                if bool(q.code) != (schema is CODE_SCHEMA):
                    others.append(q)
            if others:
                raise BenchmarkError(
                    "Programming problems cannot be asked together with other questions. Ask "
                    f"{others[0].benchmark} in a separate run."
                )
            arrays = []
            for field in schema:
                arrays.append(
                    column_array([_stored(question, field.name) for question in step], field)
                )
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            step = list(islice(rest, BATCH_ROWS))
    return len(seen)


def _stored(item: Item, name: str) -> Any:
    value = getattr(item, name)
    return asdict(value) if isinstance(value, Code) else value


class QuestionFile:
    """Read the questions of a run by their position in questions.arrow."""

    def __init__(self, path: Path | str) -> None:
        """Open the questions of a run.

        Parameters
        ----------
        path : Path or str
            A run directory, the path of its questions.arrow, or the URL of that file.

        Raises
        ------
        ShardError
            If the file does not exist, is damaged, or is not a file of questions.
        """
        path = local_file(str(path))
        self.path = path / QUESTIONS if path.is_dir() else path
        try:
            # A file from object storage has no file name, only a file descriptor.
            check_regular(self.path, follow=True)
            self._reader = pa.ipc.open_file(pa.memory_map(str(self.path)))
            batches = self._reader.num_record_batches
            last = self._reader.get_batch(batches - 1).num_rows if batches else 0
        except (pa.ArrowException, OSError) as error:
            raise ShardError(
                f"{self.path} cannot be read as a file of questions ({error}). Type the run's "
                "command again. On a cluster, run_dir must be on a file system that all nodes "
                "share."
            ) from error
        if self._reader.schema not in (QUESTION_SCHEMA, CODE_SCHEMA):
            raise ShardError(
                f"{self.path} has the columns {self._reader.schema.names}. "
                f"Expected {QUESTION_SCHEMA.names}."
            )
        self._length = max(0, batches - 1) * BATCH_ROWS + last

    def __len__(self) -> int:
        return self._length

    def slice(self, start: int, stop: int) -> list[Item]:
        """Return the questions at the positions from start to stop - 1."""
        items: list[Item] = []
        for k in range(start // BATCH_ROWS, -(-stop // BATCH_ROWS)):
            low, high = max(start - k * BATCH_ROWS, 0), min(stop - k * BATCH_ROWS, BATCH_ROWS)
            items += _questions(self._reader.get_batch(k).slice(low, high - low))
        return items

    def __getitem__(self, index: int) -> Item:
        return self.slice(index, index + 1)[0]

    def __iter__(self) -> Iterator[Item]:
        for k in range(self._reader.num_record_batches):
            yield from _questions(self._reader.get_batch(k))

    def names(self) -> Iterator[list[tuple[str, str]]]:
        """Yield (benchmark, id) of the questions, one batch at a time.

        The file is read and not memory-mapped, so that a driver that reads all questions needs
        little memory.
        """
        columns = [QUESTION_SCHEMA.get_field_index(c) for c in ("id", "benchmark")]
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        with pa.OSFile(str(self.path)) as file:
            reader = pa.ipc.open_file(file, options=options)
            for k in range(reader.num_record_batches):
                batch = reader.get_batch(k)
                yield list(
                    zip(
                        batch.column("benchmark").to_pylist(),
                        batch.column("id").to_pylist(),
                        strict=True,
                    )
                )


def _questions(batch: pa.RecordBatch) -> list[Item]:
    columns = batch.to_pydict()
    codes = columns.pop("code", repeat(None, batch.num_rows))
    items = []
    for id_, benchmark, text, options, gold, group, order, target, code in zip(
        *columns.values(), codes, strict=True
    ):
        problem = code and Code(**code)
        items.append(
            Item(id_, benchmark, text, tuple(options), gold, group, tuple(order), target, problem)
        )
    return items
