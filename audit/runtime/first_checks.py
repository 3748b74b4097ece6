"""Check the run directory and the endpoints before the benchmark is read.

Reading the benchmark and resolving the run would load scipy and other slow packages. A command that
will be refused should not load these packages.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from audit.benchmarks.config import check_path
from audit.config.audits import Audit
from audit.config.base import RunConfig, plain_config, reading_of
from audit.config.references import ReferencedConfig, judged
from audit.config.resolve import OUTPUTS, default_prefix
from audit.core.errors import AuditError, ConfigError, EngineError, ShardError
from audit.core.guarded_files import nearest
from audit.core.records import Reading
from audit.engines.config import ModelConfig
from audit.engines.probe import probe
from audit.runtime.early import check_panel
from audit.runtime.tasks import loaded
from audit.shards.files import make_folder
from audit.shards.manifest import MANIFEST, check_same_models
from audit.shards.object_store import is_url


def check_start(audit: Audit, config: RunConfig) -> None:
    """Refuse to start a run whose directory or endpoints cannot be used.

    Parameters
    ----------
    audit : Audit
        The audit to run.
    config : RunConfig
        The composed options. A run directory in object storage is checked later, when it is opened.

    Raises
    ------
    ConfigError
        If the run directory cannot be written, or belongs to a run of other models.
    BenchmarkError
        If a file of questions does not exist.
    EngineError
        If no model of a new run can be asked. A resumed run may not need its endpoints. They are
        checked later, after the missing rows were counted.
    """
    check_files(config)
    answering = {name: audit.answering(config, model) for name, model in config.model.items()}
    if not _is_new(audit, config, answering) or config.cluster.address is not None:
        return
    refused = _refused(audit, config, answering)
    if refused and len(refused) == len(config.model):
        raise EngineError("\n".join(f"model {name}: {why}" for name, why in refused.items()))
    tested = judged(config) if isinstance(config, ReferencedConfig) else None
    check_panel(refused, config.model, tested)


def check_files(config: RunConfig) -> None:
    """Raise an error if a file that the options name does not exist.

    The function is called before a model is loaded or asked.
    """
    for benchmark in (config.benchmark, config.control_benchmark):
        if benchmark is not None and benchmark.path is not None:
            check_path(benchmark.path)
    order = getattr(config, "published_order", None)
    if order and not Path(order).is_file():
        raise ConfigError(
            f"published_order is {order}, which does not exist.{nearest(order)} Expected the record "
            "that `audit publish` wrote. Example: published_order=exam.order.json"
        )


def _is_new(audit: Audit, config: RunConfig, answering: Mapping[str, ModelConfig]) -> bool:
    """Return whether a run has no stored rows.

    Raises ConfigError if the directory cannot be used for this run.
    """
    if config.run_dir is None:
        return not any(OUTPUTS.glob(f"{default_prefix(audit.name, config)}*"))
    if is_url(config.run_dir):
        return False
    run_dir = Path(config.run_dir)
    check_same_models(run_dir, audit.schema, plain_config(config, answering))
    _check_writable(run_dir)
    return not (run_dir / MANIFEST).exists()


def _refused(
    audit: Audit, config: RunConfig, answering: Mapping[str, ModelConfig]
) -> dict[str, AuditError]:
    """Map each model whose endpoints cannot be used to its error."""
    names: list[str] = []
    endpoints: list[ModelConfig] = []
    letters: list[bool] = []
    for name, model in config.model.items():
        by_letters = reading_of(config, answering[name]) == Reading.LETTER_LOGPROB
        for engine in loaded(audit, model, answering[name]):
            if engine.engine == "openai":
                names.append(name)
                endpoints.append(engine)
                letters.append(by_letters)
    refused: dict[str, AuditError] = {}
    for name, error in zip(names, probe(endpoints, letters), strict=True):
        if error is not None:
            refused[name] = error
    return refused


def _check_writable(run_dir: Path) -> None:
    """Check that a file can be written into the run directory.

    Folders that this function creates are removed again.
    """
    missing = [folder for folder in (run_dir, *run_dir.parents) if not folder.exists()]
    try:
        make_folder(run_dir)
    except ShardError as error:
        raise ConfigError(str(error)) from error
    finally:
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
