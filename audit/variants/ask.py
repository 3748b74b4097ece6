"""Send the requests of a build to its models, through the same pipeline as an audit's requests.

Each batch of requests has a run directory, whose name is the hash of the requests and the model. So
a repeated or interrupted build finds its stored replies and sends only the missing requests.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from audit.benchmarks.sample import Census, Sample, take_census
from audit.config.audits import Audit, Roles, Work
from audit.config.base import RunConfig, load_group
from audit.config.resolve import BenchmarkSample, resolve_run, revision_of
from audit.core.aliases import named
from audit.core.errors import EngineError
from audit.core.records import (
    NO_OPTION,
    Design,
    FinishReason,
    Generation,
    Item,
    Part,
    Presentation,
    Reading,
)
from audit.engines.config import ModelConfig, SamplingConfig, check_model
from audit.engines.weights import resolve_weights
from audit.runtime.progress import Display
from audit.shards.read import iter_rows
from audit.shards.schema import row_schema
from audit.shards.working_copy import own_run
from audit.variants.build import Judge
from audit.variants.config import VariantsConfig, writer_and_judge
from audit.variants.record import ModelRef, ModelRequest
from audit.variants.run import Models, shipped_prompts

PARAPHRASE, JUDGE = "paraphrase", "judge"


@dataclass
class AskConfig(RunConfig):
    """Define the options of a batch of requests. `role` is paraphrase or judge."""

    role: str = PARAPHRASE


def design(config: AskConfig) -> Design:
    """Return a design with one call for each request and one arm, named after the model's role."""
    return Design((Part(config.role, (0,)),))


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return the unchanged request. The parameters are those of `Audit.present`."""
    return [Presentation(item.text, (), NO_OPTION)]


ASK = Audit(
    name="variants",
    schema=row_schema("variants", 1, level_doc="0: a request is asked once"),
    roles=Roles(baseline=(PARAPHRASE, 0), arms=(PARAPHRASE, JUDGE)),
    design=design,
    present=present,
)


@dataclass(frozen=True)
class RequestBatch:
    """Hold requests as a benchmark, so that the pipeline of the audits can run them.

    Attributes
    ----------
    name : str
        The benchmark that the requests are about.
    requests : tuple of ModelRequest
        The requests.
    warnings : tuple of str
        Always empty. The pipeline reads this field of a benchmark.
    """

    name: str
    requests: tuple[ModelRequest, ...]
    warnings: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """Return the hash of the requests and their limits."""
        requests = [asdict(request) for request in self.requests]
        content = json.dumps(requests, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()

    @property
    def census(self) -> Census:
        """Return the census of the requests."""
        return take_census(self)

    def iter_located(self) -> Iterator[tuple[str, Item]]:
        """Yield each request as an item, with its key in place of a position in a file."""
        for request in self.requests:
            yield (
                request.key,
                Item(request.key, self.name, request.prompt, (), NO_OPTION, request.key),
            )


RUNS = "runs"  # the folder of the runs, beside the libraries
_READ = ("question_id", "response", "finish_reason", "engine_id", "error")


def models_of(config: VariantsConfig) -> Models:
    """Return the paraphraser and the judge that a configuration names.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Returns
    -------
    Models
        The models, which are not loaded yet.

    Raises
    ------
    ConfigError
        If several paraphrasers are named, or a model's configuration is invalid.
    EngineError
        If a model's weights cannot be resolved.
    """
    writer, voter = writer_and_judge(config)
    judge = None
    if voter is not None:
        judge = Judge(
            partial(ask_model, config, voter, JUDGE), shipped_prompts().templates, _reference(voter)
        )
    if writer is None:
        return Models(judge=judge)
    return Models(partial(ask_model, config, writer, PARAPHRASE), _reference(writer), judge)


def check_endpoints(config: VariantsConfig) -> None:
    """Send one request to every endpoint of a build.

    This shows that a judge does not answer before the calls of the writer cost money.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Raises
    ------
    EngineError
        If an endpoint does not serve its model.
    """
    models = [model for model in writer_and_judge(config) if model is not None]
    served = [model for model in models if model.engine == "openai"]
    # The nodes of a cluster may reach other endpoints than this process.
    if not served or config.cluster.address is not None:
        return
    from audit.engines.probe import probe

    for error in filter(None, probe(served, [False] * len(served))):
        raise error


def _reference(model: ModelConfig) -> ModelRef:
    check_model(model.name, model, Reading.TEXT)
    weights = resolve_weights(model) if model.engine == "vllm" else None
    return ModelRef(model.name, str(revision_of(model, weights)))


def ask_model(
    config: VariantsConfig, model: ModelConfig, role: str, requests: Sequence[ModelRequest]
) -> list[Generation]:
    """Return the replies to a batch of requests, in order.

    Requests whose replies are stored in the run directory of the batch are not sent again.

    Parameters
    ----------
    config : VariantsConfig
        The configuration of the build.
    model : ModelConfig
        The model.
    role : str
        "paraphrase" or "judge".
    requests : sequence of ModelRequest
        The requests, which all have the same limits.

    Returns
    -------
    list of Generation
        The replies. A failed call is a `Generation(error=...)`.

    Raises
    ------
    EngineError
        If the model cannot be run.
    """
    first = requests[0]
    limits = SamplingConfig(first.max_tokens, first.temperature, first.top_p)
    run_config = AskConfig(
        model={model.name: replace(model, worker=limits, protocol=None)},
        benchmark=config.benchmark,
        protocol=load_group("protocol", "song2026"),
        cluster=config.cluster,
        store=config.store,
        n="all",
        seed=config.seed,
        reading=Reading.TEXT.value,
        role=role,
    )
    n, keys = len(requests), tuple(request.key for request in requests)
    # The sample keeps identical requests, because k votes are k requests with the same prompt.
    sample = Sample(keys, tuple(range(n)), n, n, (), chance=0.0, seed=0)
    batch = RequestBatch(config.benchmark.name, tuple(requests))
    resolved = resolve_run(ASK, run_config, samples=[BenchmarkSample(batch, sample)])
    folder = f"{config.library_name}-{role}-{model.name}-{resolved.identity[:10]}"
    resolved = replace(resolved, path=own_run(Path(config.out) / RUNS / folder))
    with Display(quiet=not config.progress) as display:
        display.stage(
            f"{role}: {len(requests)} requests to {model.name}, stored in {named(resolved.path)}"
        )
        from audit.registry.finish import hooks
        from audit.runtime.run import run_audit

        result = run_audit(
            resolved, {"seed": config.seed}, display, hooks=hooks(run_config.registry)
        )
        if result.failed:
            raise EngineError(f"The {role} model cannot be run: {result.failed[model.name]}")
        rows = chain.from_iterable(iter_rows(result.run_dir, ASK.schema, _READ))
        replies = {}
        for key, text, finish, engine, error in map(dict.values, rows):
            reply = Generation(text, FinishReason(finish), engine_id=engine, error=error)
            replies[key] = reply
        failed = sum(reply.error is not None for reply in replies.values())
        if failed:
            display.note(f"{failed} of {n} calls failed. To repeat these: store.retry_errors=true")
    return [replies[key] for key in keys]
