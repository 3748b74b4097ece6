"""Ask the models of a build: requests go through the pipeline of the audits, each batch in a run
directory of its own.

A batch is named by the hash of its requests and its model, so that the same build finds its replies
again. What is in the shards is not asked twice, and a build that was killed resumes.
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
    role: str = PARAPHRASE


def design(config: AskConfig) -> Design:
    """Return a design of one call for each request; its arm states what it is for."""
    return Design((Part(config.role, (0,)),))


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return the request as it was made."""
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
    """Hold requests in the place of a benchmark's questions. Its revision is the hash of what is
    asked, and how.

    Attributes
    ----------
    name : str
        Benchmark whose questions the requests are about.
    requests : tuple of ModelRequest
        Requests.
    warnings : tuple of str
        None here; a benchmark may have some.
    """

    name: str
    requests: tuple[ModelRequest, ...]
    warnings: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        content = json.dumps(
            [asdict(request) for request in self.requests], sort_keys=True, separators=(",", ":")
        )
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()

    @property
    def census(self) -> Census:
        return take_census(self)

    def iter_located(self) -> Iterator[tuple[str, Item]]:
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
        The models, not loaded yet.

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
    """Ask every endpoint of a build once, so that a judge that is down is found before the writer
    is paid for.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Raises
    ------
    EngineError
        If an endpoint does not serve its model.
    """
    served = [
        model
        for model in writer_and_judge(config)
        if model is not None and model.engine == "openai"
    ]
    # Nodes may reach other endpoints than this process.
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
    """Return the replies to a batch, in order.

    Parameters
    ----------
    config : VariantsConfig
        Configuration of the build.
    model : ModelConfig
        The model.
    role : str
        paraphrase or judge.
    requests : sequence of ModelRequest
        Requests of one role, which have equal limits.

    Returns
    -------
    list of Generation
        Replies, read from the batch's run directory if they are there. A call that failed is a
        `Generation(error=...)`.

    Raises
    ------
    EngineError
        If the model cannot be run.
    """
    first = requests[0]  # all requests of a role have the same limits
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
    # The sample holds every request, equal ones too: k votes are one prompt, asked k times.
    sample = Sample(keys, tuple(range(n)), n, n, (), chance=0.0, seed=0)
    batch = RequestBatch(config.benchmark.name, tuple(requests))
    resolved = resolve_run(ASK, run_config, samples=[BenchmarkSample(batch, sample)])
    folder = f"{config.library_name}-{role}-{model.name}-{resolved.identity[:10]}"
    resolved = replace(resolved, path=own_run(Path(config.out) / RUNS / folder))
    with Display(quiet=not config.progress) as display:
        display.stage(
            f"{role}: {len(requests)} requests to {model.name}, kept in {named(resolved.path)}"
        )
        from audit.registry.finish import hooks
        from audit.runtime.run import run_audit

        result = run_audit(
            resolved, {"seed": config.seed}, display, hooks=hooks(run_config.registry)
        )
        if result.failed:
            raise EngineError(f"The {role} model cannot be run: {result.failed[model.name]}")
        rows = chain.from_iterable(iter_rows(result.run_dir, ASK.schema, _READ))
        replies = {
            key: Generation(text, FinishReason(finish), engine_id=engine, error=error)
            for key, text, finish, engine, error in map(dict.values, rows)
        }
        if failed := sum(reply.error is not None for reply in replies.values()):
            display.note(f"{failed} of {n} calls failed; store.retry_errors=true asks these again")
    return [replies[key] for key in keys]
