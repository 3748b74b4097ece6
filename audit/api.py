"""Run audits and read their runs from Python: the public functions of the package.

Arguments are those of the commands. Heavy imports stand inside the functions, so `import audit` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from audit.loading import Run, RunEntry


class Options(TypedDict, total=False):
    """Name the options that every audit takes; docs/reference/python.md names the others."""

    model: str | Sequence[str]
    endpoint: str
    model_id: str
    api_key_env: str
    benchmark: str | Mapping[str, Any]
    data: Path | str
    n: int | str | None
    seed: int
    reading: str | None
    canary: bool
    run_dir: Path | str | None
    report: bool
    gate: bool
    progress: bool
    registry: str | None
    verdict: Mapping[str, Any]
    cluster: str | Mapping[str, Any]
    cost: str | Mapping[str, Any]
    preset: str


class SweepOptions(Options, total=False):
    """Name the options of the router-worker sweep."""

    r: int | str | Sequence[int]
    arms: Sequence[str]
    draws: str
    aggregator: str
    replicates: int
    clean_replicates: int
    noisy_replicates: int
    ensemble_control: bool
    worker: str | None
    messages_from: Path | str | None
    messages_of: str | None
    hint_reference: Path | str | Sequence[str] | None


class ReferencedOptions(Options, total=False):
    """Name the options of the audits that compare with references and held-out items."""

    references: Sequence[str]
    allow_convicted: Sequence[str]
    control_benchmark: str | Mapping[str, Any]
    control_data: Path | str


class PerturbOptions(ReferencedOptions, total=False):
    """Name the options of the perturbation audit."""

    variants: Path | str | None
    control_variants: Path | str | None
    num_variants: int
    original_replicates: int


class MemoryOptions(ReferencedOptions, total=False):
    """Name the options of the memory audit."""

    fresh_after: str
    orders: int
    option_orders: int
    published_order: Path | str | None


class ValidityOptions(Options, total=False):
    """Name the options of the construct-validity audit."""

    scorer: str | None
    judge: str | None
    judge_votes: int
    labels: Path | str | None
    variants: Path | str | None
    formats: Sequence[str]
    edits_per_family: int


Function = TypeVar("Function", bound="Callable[..., Run]")


def _named(options: type) -> Callable[[Function], Function]:
    """Give a function the names of a TypedDict as its signature, for help() and for completion."""

    def with_names(function: Function) -> Function:
        names = get_type_hints(options)
        own = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in names.items()]
        more = Parameter("options", Parameter.VAR_KEYWORD)
        function.__signature__ = signature(function).replace(parameters=[*own, more])  # type: ignore[attr-defined]
        return function

    return with_names


@_named(SweepOptions)
def run_sweep(**options: Unpack[SweepOptions]) -> Run:
    """Run (or resume) a router-worker sweep in this process, and load it.

    Parameters
    ----------
    **options : SweepOptions
        Options of the command, as of `run`.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the command would refuse the options.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_sweep(model="scripted", n=20, r="1..3")  # doctest: +SKIP
    """
    return run("sweep", **options)


@_named(PerturbOptions)
def run_perturb(**options: Unpack[PerturbOptions]) -> Run:
    """Run (or resume) a perturbation audit in this process, and load it.

    Parameters
    ----------
    **options : PerturbOptions
        Options of the command, as of `run`.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the command would refuse the options.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_perturb(model="scripted", n=20)  # doctest: +SKIP
    """
    return run("perturb", **options)


@_named(MemoryOptions)
def run_memory(**options: Unpack[MemoryOptions]) -> Run:
    """Run (or resume) a memory audit in this process, and load it.

    Parameters
    ----------
    **options : MemoryOptions
        Options of the command, as of `run`.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the command would refuse the options.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_memory(  # doctest: +SKIP
    ...     endpoint="http://127.0.0.1:8000/v1",
    ...     model_id="my-model",
    ...     data="exam.csv",
    ...     control_data="unseen.csv",
    ...     references=["other-model", "third-model", "fourth-model"],
    ... )
    """
    return run("memory", **options)


@_named(ValidityOptions)
def run_validity(**options: Unpack[ValidityOptions]) -> Run:
    """Run (or resume) a construct-validity audit in this process, and load it.

    Parameters
    ----------
    **options : ValidityOptions
        Options of the command, as of `run`.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the command would refuse the options.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_validity(model="scripted", n=20)  # doctest: +SKIP
    """
    return run("validity", **options)


def run(audit: str, **options: Any) -> Run:
    """Run (or resume) an audit in this process, as its command does, and load it.

    Parameters
    ----------
    audit : str
        sweep, perturb, memory, validity, or an audit that another package adds.
    **options
        Options of the command: model="qwen3_8b", n=200, references=["a", "b"]. A mapping sets the keys below a key:
        benchmark={"path": "exam.csv"}.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the command would refuse the options.
    AuditError
        If no model finished.
    """
    from audit.audits import part_of
    from audit.command_line import NAMED_MODEL, configured
    from audit.errors import AuditError, ConfigError
    from audit.plain_words import words
    from audit.short_forms import need_model

    if options.get("plan"):
        raise ConfigError(f"plan=True gives no run. Expected the command: audit {audit} plan=true ...")
    part = part_of(audit, "__main__")
    arguments = list(words(options))
    if audit in NAMED_MODEL:
        need_model(arguments)
    config = configured(audit, arguments)
    code = getattr(part, audit)(config)
    if config.run_dir is None:
        raise AuditError(f"audit.run({audit!r}) ended with exit code {code} and no run; the reason is printed above.")
    return load(config.run_dir)


def load(run_dir: Path | str) -> Run:
    """Load the run of a directory as tables.

    Parameters
    ----------
    run_dir : Path or str
        Directory of the run.

    Returns
    -------
    audit.loading.Run
        The run as tables.

    Raises
    ------
    AuditError
        If the directory holds no run, or its shards are damaged.
    """
    from audit.loading import load as load_run

    return load_run(run_dir)


def find_runs(folder: Path | str = "outputs") -> list[RunEntry]:
    """Return every run in a folder, latest first.

    Parameters
    ----------
    folder : Path or str
        Folder to search.

    Returns
    -------
    list of audit.loading.RunEntry
        One entry a run.
    """
    from audit.loading import find_runs as runs_in

    return runs_in(folder)
