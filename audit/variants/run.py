"""Run a build: open the benchmark, load the embedder, make and judge candidates."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from audit.benchmarks.files import DataFile, content_hash, labelled_rows
from audit.benchmarks.load import open_benchmark
from audit.config.base import load_group
from audit.core.errors import ConfigError
from audit.core.guarded_files import nearest
from audit.core.json_types import attributes
from audit.core.records import Item, Protocol
from audit.engines.embedder import load_embedder
from audit.engines.entailment import load_entailment
from audit.variants import strategies
from audit.variants.build import Gates, Judge, Needed, Propose, build_variants, once
from audit.variants.config import Policy, VariantsConfig, policy_of
from audit.variants.record import Candidate, Generate, Header, Library, ModelRef, questions_sha256


@dataclass(frozen=True)
class Models:
    """Hold the models of a build. No model is loaded yet.

    Attributes
    ----------
    generate, paraphraser : Generate or None, ModelRef or None
        The function that generates texts, and the name and revision of the model that it calls.
    judge : Judge or None
        The model that votes.
    """

    generate: Generate | None = None
    paraphraser: ModelRef | None = None
    judge: Judge | None = None


def run_build(config: VariantsConfig, models: Models = Models()) -> Library:
    """Build the library that a configuration describes.

    Parameters
    ----------
    config : VariantsConfig
        The options of the build.
    models : Models
        The models that write candidates and vote on them.

    Returns
    -------
    Library
        All candidates with their states, and the settings of the build.

    Raises
    ------
    ConfigError, BenchmarkError, EngineLoadError
        If the configuration, the benchmark or an encoder cannot be used.
    EngineError
        If a model cannot be run.
    """
    judge = models.judge
    policy = policy_of(config)
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    questions = list(benchmark.iter_questions())
    sources = sources_of(config)
    propose, prompts_sha256 = strategy_of(config, policy, questions, sources, models.generate)
    if judge is not None:
        prompts_sha256 = shipped_prompts().sha256
    embedder = load_embedder(
        config.embedder.adapter, str(config.embedder.model), config.embedder.revision
    )
    nli = None
    if config.nli.model:
        nli = load_entailment(config.nli.model, config.nli.revision, config.nli.adapter)
    variants = build_variants(
        questions,
        propose,
        Gates(policy, embedder, nli, judge, config.seed),
        num_variants=config.num_variants,
        max_attempts=config.max_attempts,
    )
    header = Header(
        name=config.library_name,
        benchmark=benchmark.name,
        benchmark_revision=benchmark.revision,
        questions_sha256=questions_sha256(questions),
        n_questions=len(questions),
        window=(policy.low, policy.high),
        **attributes(config, "strategy", "num_variants", "max_attempts", "seed", "licence"),
        **attributes(policy, "changes", "context", "options", "judge_scope", "unjudged"),
        embedder=ModelRef(embedder.name, embedder.revision),
        nli=ModelRef(nli.name, nli.revision) if nli else None,
        nli_cut=policy.nli_cut if nli else None,
        judge=judge.model if judge else None,
        judge_votes=policy.judge_votes if judge else 0,
        paraphraser=models.paraphraser,
        prompts_sha256=prompts_sha256,
        sources=tuple(content_hash([source]) for source in sources),
    )
    return Library(header, tuple(variants))


def shipped_prompts() -> Protocol:
    """Return the shipped prompts of the paraphraser and the judge."""
    return strategies.load_prompts(load_group("rewording", "prompts"))


def strategy_of(
    config: VariantsConfig,
    policy: Policy,
    questions: list[Item],
    sources: list[DataFile],
    generate: Generate | None,
) -> tuple[Propose, str]:
    """Return the function that proposes candidates, and the hash of its prompts or rules.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.
    policy : Policy
        The rules of the benchmark on which parts of a question may change.
    questions : list of Item
        The questions to reword.
    sources : list of DataFile
        Files of existing variants, which strategy=file reads.
    generate : Generate or None
        The function that generates replies.

    Returns
    -------
    propose : Propose
        The function that proposes candidates.
    sha256 : str
        The hash of the prompts or rules. It is "" if candidates come from a file.

    Raises
    ------
    ConfigError
        If a row of a file cannot be used, or a model is missing.
    """
    if config.strategy == "file":
        rows = chain.from_iterable(map(labelled_rows, sources))
        return once(strategies.file_candidates(rows, questions, config.file)), ""
    if config.strategy == "template":
        rules, sha256 = strategies.load_rules(load_group("rewording", "templates"))
        candidates: list[Candidate] = []
        for question in questions:
            candidates += strategies.template_candidates(question, policy, rules)
        return once(candidates), sha256
    if generate is None:
        raise ConfigError("strategy=paraphrase_llm needs a model. Example: model=llama3_8b")
    prompts = shipped_prompts()

    def paraphrased(needed: Needed, attempt: int) -> list[Candidate]:
        return strategies.paraphrase_candidates(generate, prompts, needed, policy, attempt=attempt)

    return paraphrased, prompts.sha256


def sources_of(config: VariantsConfig) -> list[DataFile]:
    """Return the files of existing variants that a build reads. Only strategy=file reads files.

    Raises ConfigError if a file does not exist.
    """
    if config.strategy != "file":
        return []
    files = []
    for name in config.file.path:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"file.path is {path}, which does not exist in {Path.cwd()}.{nearest(path)} "
                "Expected a file."
            )
        files.append(DataFile(path, path.name))
    return files
