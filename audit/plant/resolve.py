"""Resolve a configuration into items, weights and texts whose revisions are fixed and checked.

The module starts no process and writes no file.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.benchmarks.load import open_benchmark
from audit.benchmarks.sample import draw_sample
from audit.config.base import sample_size
from audit.core.errors import ConfigError
from audit.engines.config import ModelConfig
from audit.engines.weights import Weights, resolve_weights
from audit.plant.config import PlantConfig, learning_rate, model_of
from audit.plant.texts import (
    Form,
    Halves,
    check_variants,
    halve,
    parse_doses,
    parse_forms,
    passages,
)
from audit.shards.working_copy import need_folder
from audit.variants.arrow import find_library
from audit.variants.record import Library, Variant
from audit.variants.select import check_library, select_variants

_PASSAGE_WORDS = 40


@dataclass(frozen=True)
class Experiment:
    """Hold everything that an experiment needs, after all names were resolved.

    Attributes
    ----------
    config, model, weights : PlantConfig, ModelConfig, Weights
        Configuration of the experiment, the model that is trained, and its weights.
    benchmark_revision : str
        Revision of the items.
    halves : Halves
        Items of the learnt half and of the other half.
    forms, doses : tuple
        Forms of the training texts, and numbers of passes.
    library : Library or None
        Library of the benchmark's variants; None without variants.
    variants : dict of str to tuple
        Maps each question id to its variants, which are asked and used for training.
    other : tuple of str
        Passages of unrelated text.
    identity : str
        Hash of everything that determines the weights and the questions. Forms and doses are left
        out, so a later command can add forms and doses in the same directory.
    path : Path
        Directory of the experiment.
    """

    config: PlantConfig
    model: ModelConfig
    weights: Weights
    benchmark_revision: str
    halves: Halves
    forms: tuple[Form, ...]
    doses: tuple[int, ...]
    library: Library | None
    variants: dict[str, tuple[Variant, ...]]
    other: tuple[str, ...]
    identity: str
    path: Path

    def folder_of(self, label: str) -> Path:
        """Return the folder with the weights of a planted model, by its label "<form>-<passes>"."""
        form, _, dose = label.rpartition("-")
        return self.path / "weights" / form / f"passes-{dose}"


def planted_doses(experiment: Experiment) -> list[int]:
    """Return the numbers of training passes in rising order, without 0 (the base model)."""
    return [dose for dose in experiment.doses if dose]


def resolve_plant(config: PlantConfig) -> Experiment:
    """Resolve a configuration to an experiment.

    Parameters
    ----------
    config : PlantConfig
        Validated configuration of the experiment.

    Returns
    -------
    Experiment
        The resolved experiment.

    Raises
    ------
    AuditError
        If the experiment is impossible, for example with too few items, without variants, or
        without weights to train.
    """
    need_folder(config.run_dir, "audit.plant")
    model = model_of(config)
    forms, doses = parse_forms(config.forms), parse_doses(config.doses)
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    sample = draw_sample(benchmark, sample_size(config), config.seed)
    drawn = set(sample.ids)
    # The items keep their published order.
    questions = [question for question in benchmark.iter_questions() if question.id in drawn]
    halves = halve(questions, config.seed)
    library: Library | None = None
    variants: dict[str, tuple[Variant, ...]] = {}
    if "perturb" in config.audits or Form.PARAPHRASE in forms:
        library = find_library(config.variants or config.benchmark.name)
        check_library(library, benchmark.name, questions)
        variants = dict(select_variants(library, questions, config.num_variants).variants)
        if Form.PARAPHRASE in forms:
            check_variants(halves.learnt, variants)
    other = tuple(passages(_other_text(config), _PASSAGE_WORDS)) if Form.MIX in forms else ()
    weights = resolve_weights(model)
    train = {**asdict(config.train), "lr": learning_rate(config)}
    decides = {
        "model": weights.revision,
        "benchmark": benchmark.revision,
        "learnt": halves.learnt_sha256,
        "items": len(halves.questions),
        "library": library.sha256 if library else None,
        "train": train,
        "seed": config.seed,
        "asked": [
            config.num_variants,
            config.shard_items,
            config.orders,
            config.option_orders,
            str(config.r),
        ],
    }
    identity = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    default = Path("outputs") / f"plant-{benchmark.name}-{model.name}-{identity[:10]}"
    return Experiment(
        config=config,
        model=model,
        weights=weights,
        benchmark_revision=benchmark.revision,
        halves=halves,
        forms=forms,
        doses=doses,
        library=library,
        variants=variants,
        other=other,
        identity=identity,
        path=Path(config.run_dir) if config.run_dir else default,
    )


def _other_text(config: PlantConfig) -> str:
    """Return text that is unrelated to the benchmark; the default text comes with Python."""
    if config.train.other_text is not None:
        try:
            return Path(config.train.other_text).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"train.other_text={config.train.other_text} cannot be read: {error}"
            ) from error
    from pydoc_data.topics import topics

    return "\n".join(text for _, text in sorted(topics.items()))
