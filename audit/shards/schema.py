"""Define the columns of rows: those that all audits share, and those of a single audit.

A shard is an Arrow IPC file (zstd) with rows of one `RowSchema`. All shards of a run are read by
`pyarrow.dataset.dataset(RUN_DIR / "shards", format="ipc")`. Each file names its audit and version.
Each key (the columns that identify a row) occurs once in a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def plain_values(column: pa.Array) -> list[Any]:
    """Return the values of a column, as `to_pylist` does.

    If NumPy supports the type and no value is null, this takes a fifth of the time of `to_pylist`.
    """
    if column.null_count or pa.types.is_nested(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy(zero_copy_only=False).tolist())


def shared_values(column: pa.Array, shared: dict[str, str]) -> list[Any]:
    """Return the values of a column, with a single object for all equal strings.

    Parameters
    ----------
    column : pyarrow.Array
        The column. Strings in lists are shared too.
    shared : dict of str to str
        Strings of earlier columns, as {text: text}. New strings are added.

    Returns
    -------
    list
        The values.
    """
    if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
        texts = shared_values(column.flatten(), shared)
        length = pc.list_value_length(column)
        ends = np.cumsum(length.fill_null(0).to_numpy(zero_copy_only=False)).tolist()
        lists: list[Any] = [texts[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if column.null_count:
            nulls = length.is_null().to_pylist()
            lists = [None if null else values for null, values in zip(nulls, lists, strict=True)]
        return lists
    if not pa.types.is_string(column.type):
        return plain_values(column)
    codes = column.dictionary_encode()
    texts = [*(shared.setdefault(text, text) for text in plain_values(codes.dictionary)), None]
    decoded = []
    for code in codes.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False).tolist():
        decoded.append(texts[code])
    return decoded


SHARED_VERSION = (
    # Increase this version if a shared column changes, so that a run never mixes shards of two
    # versions.
    4
)

Column = tuple[str, pa.DataType, str]  # name, type and documentation of a column


def _shared(level: str, level_doc: str) -> tuple[Column, ...]:
    return (
        ("model", pa.string(), "name of the model configuration, such as llama3_70b"),
        (
            "model_revision",
            pa.string(),
            "commit hash of the hub, content hash of local weights, or endpoint model",
        ),
        ("benchmark", pa.string(), "name of the benchmark, such as arc_easy"),
        ("question_id", pa.string(), "stable id, unique within the benchmark"),
        (
            "group",
            pa.string(),
            "the cluster that resampling keeps together, such as a passage; the question_id if there is none",
        ),
        (
            "arm",
            pa.string(),
            "how the question reached the model; the audit's documentation lists its arms",
        ),
        (level, pa.int16(), level_doc),
        (
            "replicate",
            pa.int16(),
            "0, 1, ...: the number of the repetition of a condition, each under another seed",
        ),
        (
            "reading",
            pa.string(),
            "how the answer was read: letter, letter_logprob, option_text, number, code or text",
        ),
        ("question", pa.string(), "the original question"),
        (
            "options",
            pa.list_(pa.string()),
            "the options in the order presented; empty if the answer is a number or code",
        ),
        ("prompt", pa.string(), "the text that was sent to the model that answers"),
        (
            "response",
            pa.string(),
            "the text that this model generated, verbatim; empty if options were scored; hostile text",
        ),
        (
            "answer",
            pa.int16(),
            "index of the chosen option; null if the row is unparsed or an error, or the answer is a number",
        ),
        (
            "gold",
            pa.int16(),
            "index of the right option, as presented; -1 if there are no options",
        ),
        (
            "answer_number",
            pa.float64(),
            "the number in the reply (reading number); null if the row is unparsed or an error",
        ),
        ("target", pa.float64(), "the right number; null if there are options"),
        (
            "correct",
            pa.bool_(),
            "true if answer is gold, answer_number is target, or the code passed; null if unparsed or an error",
        ),
        ("parsed", pa.bool_(), "true if an answer could be read"),
        (
            "reasked",
            pa.bool_(),
            "true if no answer could be read from the response, so the question was asked again",
        ),
        (
            "answer_form",
            pa.string(),
            "how the answer was found: strict, lenient, logprob, text or none; for a number: marked (after ####), "
            "declared (in a box or in words) or last (in the last sentence); for code: its result (passed, "
            "AssertionError, cpu_limit, ...)",
        ),
        ("finish_reason", pa.string(), "stop, length (truncated), scored or error"),
        (
            "option_logprobs",
            pa.list_(pa.float64()),
            "total log-probability (nats) of each option, letter or piece of a given text; empty for a generated reply",
        ),
        (
            "prompt_tokens",
            pa.int32(),
            "tokens of the prompt, summed over the options if these were scored",
        ),
        ("cached_tokens", pa.int32(), "prompt tokens that came from the prefix cache"),
        ("completion_tokens", pa.int32(), "generated tokens"),
        ("engine_id", pa.string(), "the engine that answered"),
        ("seed", pa.int64(), "the request's seed"),
        (
            "error",
            pa.string(),
            "the reason for a missing answer, such as a prompt that is too long; null for an answered row",
        ),
        (
            "options_shown",
            pa.bool_(),
            "true if the protocol shows the options; false for a cloze, which scores options without showing them",
        ),
        (
            "request_sha256",
            pa.string(),
            "sha256 of the input of the model that answers; null for an error row and for a vote over several "
            "requests. tokens:<hex> is over the token ids (prompt, continuations or letters); text:<hex> is over "
            "the text, if an endpoint returns no token ids. Two rows with equal values had the same input",
        ),
    )


@dataclass(frozen=True, eq=False)
class RowSchema:
    """Define the rows of one audit.

    Attributes
    ----------
    audit, version : str
        Name of the audit, and version of its rows.
    columns : pyarrow.Schema
        Columns with their documentation, and the audit and version as metadata. Columns named
        `<role>_calls` and `<role>_*_tokens` count the calls before the answer and their tokens.
    key : tuple of str
        Columns whose values are unique together: (model, benchmark, question_id, arm, <level>,
        replicate).
    """

    audit: str
    version: str
    columns: pa.Schema
    key: tuple[str, ...]

    def of_run(self, fingerprint: str) -> "RowSchema":
        """Return this schema with the fingerprint of one run.

        All shards of the run must have this fingerprint. Shards of other runs do not match the
        returned schema, although they may have the same keys.

        Parameters
        ----------
        fingerprint : str
            Fingerprint of the run.

        Returns
        -------
        RowSchema
            The schema, with the fingerprint in its metadata.
        """
        named = {**self.columns.metadata, b"run": fingerprint.encode()}
        return replace(self, columns=self.columns.with_metadata(named))

    @property
    def level(self) -> str:
        """Return the name of the column that holds the level, which differs between audits."""
        return self.key[4]

    @property
    def cost_columns(self) -> tuple[str, ...]:
        """Return the names of the columns that count calls and tokens."""
        return tuple(name for name in self.columns.names if name.endswith(("_tokens", "_calls")))

    @property
    def failure_columns(self) -> tuple[str, ...]:
        """Return the names of the columns that `failed` needs.

        If the design of an audit has rows whose question cannot be asked, the audit has a column
        `asked`.
        """
        return ("error", "asked") if "asked" in self.columns.names else ("error",)

    def failed(self, rows: pa.Table | pa.RecordBatch) -> NDArray[np.bool_]:
        """Return, for each row, whether it has no answer because of a failure.

        Parameters
        ----------
        rows : pyarrow.Table or pyarrow.RecordBatch
            Rows with the columns in `failure_columns`.

        Returns
        -------
        (n,) bool array
            True for failed rows. A row whose question was never asked has not failed; its column
            `error` states why it was not asked.
        """
        failed: NDArray[np.bool_] = rows["error"].is_valid().to_numpy(zero_copy_only=False)
        if "asked" in self.failure_columns:
            failed = failed & rows["asked"].to_numpy(zero_copy_only=False)
        return failed

    def found_in(self, schema: pa.Schema) -> str | None:
        """Return why a file does not contain rows of this schema, as part of an error message.

        Parameters
        ----------
        schema : pyarrow.Schema
            Schema of the file.

        Returns
        -------
        str or None
            The reason; None if the file matches.
        """
        metadata = {}
        for key, value in (schema.metadata or {}).items():
            metadata[key] = value.decode(errors="replace")
        audit, version = metadata.get(b"audit"), metadata.get(b"version")
        if (audit, version) != (self.audit, self.version):
            return (
                f"it is of audit {audit}, {version}, and rows of audit {self.audit}, "
                f"{self.version}, were expected; rows of another audit or version are not read"
            )
        run = self.columns.metadata.get(b"run")
        if run is not None and (schema.metadata or {}).get(b"run", run) != run:
            return "it is of a run with another configuration"
        if not schema.equals(self.columns, check_metadata=False):
            odd = (
                sorted(set(schema.names) ^ set(self.columns.names))
                or "the same columns in another order or type"
            )
            return f"its columns are not those of its audit ({odd})"
        return None


def row_schema(
    audit: str,
    version: int,
    audit_columns: Sequence[Column] = (),
    *,
    level: str = "variant",
    level_doc: str = "which variant of the question; 0 for the original",
) -> RowSchema:
    """Return the schema with the shared columns, followed by an audit's own columns.

    Parameters
    ----------
    audit : str
        Name of the audit.
    version : int
        Version of the audit's own columns, which is increased if one of these columns changes.
    audit_columns : sequence of Column
        The audit's own columns.
    level : str
        Name of the column that holds the level.
    level_doc : str
        Documentation of this column.

    Returns
    -------
    RowSchema
        The schema.
    """
    columns = (*_shared(level, level_doc), *audit_columns)
    whole = f"version {SHARED_VERSION}.{version}"
    schema = pa.schema(
        [pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in columns],
        metadata={"audit": audit, "version": whole},
    )
    return RowSchema(
        audit, whole, schema, ("model", "benchmark", "question_id", "arm", level, "replicate")
    )
