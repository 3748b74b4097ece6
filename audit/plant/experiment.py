"""Train, serve, measure: the shell of an experiment. What is done is on disk and is not done again."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

from audit.audits import Work
from audit.config import sampling_of
from audit.engines.config import ModelConfig
from audit.engines.vllm_engine import is_cpu_build
from audit.engines.weights import Weights, local_path, resolve_weights
from audit.errors import ConfigError, TrainError
from audit.memory.audit import MEMORY
from audit.memory.design import Arm as MemoryArm
from audit.memory.present import Orders
from audit.perturb.audit import PERTURB
from audit.perturb.design import make_design as wordings
from audit.plant import measure
from audit.plant.config import SERVED_RANKS, learning_rate
from audit.plant.measure import Ask, Reading
from audit.plant.plan import Form, Method
from audit.plant.resolve import Experiment
from audit.plant.texts import pass_examples
from audit.plant.train import REFUSED, Job
from audit.records import Design, Generation, Part
from audit.runtime.ask import asking, run_command
from audit.runtime.progress import Display
from audit.runtime.start import start_ray
from audit.shards.questions import write_questions
from audit.sweep.audit import SWEEP
from audit.sweep.design import Draws, parse_routers
from audit.sweep.design import make_design as routers
from audit.variants.arrow import FILE, write_library

BASE = "base"
_IDENTITY = "identity.json"
_LOG_CHARS = 2000


def open_folder(experiment: Experiment) -> None:
    """The experiment's directory; ConfigError where it holds another one."""
    path = experiment.path / _IDENTITY
    if path.is_file():
        if json.loads(path.read_text(encoding="utf-8"))["identity"] != experiment.identity:
            raise ConfigError(
                f"{experiment.path} holds another experiment (other weights, items, training or seed). Give another "
                "run_dir, or none."
            )
        return
    experiment.path.mkdir(parents=True, exist_ok=True)
    for name, half in (("learnt", experiment.halves.learnt), ("others", experiment.halves.others)):
        (experiment.path / name).mkdir(exist_ok=True)
        if not any((experiment.path / name).iterdir()):
            write_questions(experiment.path / name, half)
    if experiment.library is not None:
        write_library(experiment.library, experiment.path / FILE)
    path.write_text(json.dumps({"identity": experiment.identity}) + "\n", encoding="utf-8")


def run_experiment(experiment: Experiment, display: Display) -> dict[str, Reading]:
    """Readings by label: "base", and "<form>-<passes>" of every plant. Raises AuditError; what was done is kept."""
    open_folder(experiment)
    if any(_todo(experiment, label) for label in labels(experiment)):
        start_ray(experiment.config.cluster)
        for form in experiment.forms:
            _train(experiment, form, display)
        _measure(experiment, display)
    return {label: read(experiment, label) for label in labels(experiment)}


def labels(experiment: Experiment) -> list[str]:
    """The base, then the plants, the highest dose first: it tells most where a run is cut short."""
    return [BASE, *(f"{form}-{dose}" for dose in reversed(experiment.doses) if dose for form in experiment.forms)]


def read(experiment: Experiment, label: str) -> Reading:
    """What every audit read of one model, together."""
    total = Reading()
    for name in experiment.config.audits:
        one = Reading.load(_file(experiment, label, name))
        total.correct |= one.correct
        total.text |= one.text
        total.order |= one.order
        total.margin, total.options = total.margin or one.margin, total.options or one.options
        total.errors += one.errors
    return total


def folder_of(experiment: Experiment, label: str) -> Path:
    """Where a plant's weights are."""
    form, _, dose = label.rpartition("-")
    return experiment.path / "weights" / form / f"passes-{dose}"


def _file(experiment: Experiment, label: str, audit: str) -> Path:
    return experiment.path / "read" / f"{label}.{audit}.json"


def _todo(experiment: Experiment, label: str) -> list[str]:
    return [name for name in experiment.config.audits if not _file(experiment, label, name).is_file()]


def _train(experiment: Experiment, form: Form, display: Display) -> None:
    config, train = experiment.config, experiment.config.train
    doses = [dose for dose in experiment.doses if dose]
    folders = {dose: folder_of(experiment, f"{form}-{dose}") for dose in doses}
    if all(folder.is_dir() or not _todo(experiment, f"{form}-{dose}") for dose, folder in folders.items()):
        return
    passes = tuple(
        tuple(
            pass_examples(
                form,
                experiment.halves.learnt,
                k,
                seed=config.seed,
                items_per_sequence=train.items_per_sequence,
                variants=experiment.variants,
                other=experiment.other,
                dilution=train.dilution,
            )
        )
        for k in range(max(doses))
    )
    target = experiment.path / "weights" / form
    job = Job(
        path=local_path(experiment.model, experiment.weights),
        revision=experiment.weights.hub_revision,
        target=str(target.resolve()),
        method=train.method,
        passes=passes,
        doses=tuple(doses),
        lr=learning_rate(config),
        batch=max(1, train.batch // train.items_per_sequence) if form == Form.RAW else train.batch,
        seed=config.seed,
        max_tokens=train.max_tokens,
        rank=train.rank,
        modules=train.modules,
        facts={
            "model": experiment.model.name,
            "model_revision": experiment.weights.revision,
            "benchmark": config.benchmark.name,
            "benchmark_revision": experiment.benchmark_revision,
            "form": form,
            "learnt_items": len(experiment.halves.learnt),
            "learnt_sha256": experiment.halves.learnt_sha256,
        },
    )
    target.mkdir(parents=True, exist_ok=True)
    path, log = target / "job.json", target / "train.log"
    path.write_text(job.to_json(), encoding="utf-8")
    display.stage(f"training {form}, {max(doses)} passes over {len(experiment.halves.learnt)} items: {log}")
    _run_train([str(path.resolve())], log, f"Form {form} was not taught")


def _run_train(words: list[str], log: Path, failed: str) -> None:
    """`audit.plant.train` in a process of its own; TrainError with its reason."""
    code = run_command([sys.executable, "-m", "audit.plant.train", *words], log.resolve())
    if code:
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        why = said.splitlines()[-1].removeprefix("error: ") if code == REFUSED and said else said[-_LOG_CHARS:]
        raise TrainError(f"{failed}: {why or f'audit.plant.train ended with exit code {code}'}")


def _measure(experiment: Experiment, display: Display) -> None:
    """Base and adapters from one engine; a model whose every weight was trained, or whose adapter was merged, from one
    of its own."""
    left = [label for label in labels(experiment) if _todo(experiment, label)]
    # vLLM's CPU build copies an adapter's weights for every token of a prompt.
    lora = experiment.config.train.method == Method.LORA and not is_cpu_build()
    for model, weights, some in _served(experiment, left, lora):
        display.stage(f"loading {model.name} for {', '.join(some)}")
        with asking(model, weights, display.stage) as ask:
            for name, label in product(experiment.config.audits, some):
                if name in _todo(experiment, label):
                    adapter = str(folder_of(experiment, label).resolve()) if lora and label != BASE else ""
                    display.stage(f"asking {label}: {name}")
                    _reading(experiment, name, ask, adapter).save(_file(experiment, label, name))


def adapted_modules(folders: Sequence[Path]) -> list[str]:
    """The modules that have an adapter in some of these folders, by peft's own account. TrainError for a folder that
    holds none."""
    found: set[str] = set()
    for folder in folders:
        try:
            found |= set(json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["target_modules"])
        except (OSError, ValueError, KeyError) as error:
            raise TrainError(f"{folder} holds no adapter: {error}. Delete it, and type the command again.") from error
    return sorted(found)


def _served(experiment: Experiment, left: list[str], lora: bool) -> Iterator[tuple[ModelConfig, Weights, list[str]]]:
    model, rank = experiment.model, experiment.config.train.rank
    plants = [folder_of(experiment, label) for label in left if label != BASE]
    if lora and plants:
        args = {
            **model.engine_args,
            "enable_lora": True,
            "max_lora_rank": next(served for served in SERVED_RANKS if served >= rank),
            "max_loras": 1,
            # Without this list vLLM 0.32 wraps the output layer too, and dies of prompt_logprobs in a batch.
            "lora_target_modules": adapted_modules(plants),
        }
        yield replace(model, engine_args=args), experiment.weights, left
        return
    for label in left:
        if label == BASE:
            yield model, experiment.weights, [label]
            continue
        folder = folder_of(experiment, label)
        if experiment.config.train.method == Method.LORA:
            folder = _merged(folder)
        own = replace(model, name=f"{model.name}-{label}", path=str(folder), revision=None)
        yield own, resolve_weights(own), [label]


def _merged(folder: Path) -> Path:
    """The weights with this adapter in them, put there once."""
    job = folder.parent / "job.json"
    dose = int(folder.name.removeprefix("passes-"))
    merged = Job.load(job).merged(dose)
    if not merged.is_dir():
        _run_train([str(job.resolve()), str(dose)], folder.parent / "merge.log", f"{folder} was not merged")
    return merged


def _reading(experiment: Experiment, audit: str, ask: Ask, adapter: str) -> Reading:
    questions, normal = experiment.halves.questions, experiment.model.option_normalisation
    if audit == "perturb":
        design = wordings(experiment.config.num_variants, 1)
        own = {experiment.config.benchmark.name: str((experiment.path / FILE).resolve())}
        work = _work(experiment, design, own)
        rows = measure.answers(ask, PERTURB, work, questions, adapter)
        return Reading(correct=measure.scores(rows, questions, work, normal), errors=measure.failures(rows))
    if audit == "sweep":
        return _sweep(experiment, ask, adapter)
    return _memory(experiment, ask, adapter)


def _memory(experiment: Experiment, ask: Ask, adapter: str) -> Reading:
    """Scores and texts of all items; the order of neighbours within each half by itself."""
    config, questions = experiment.config, experiment.halves.questions
    n = len(questions)
    work = _work(experiment, Design((Part(MemoryArm.SCORE, (0,)),)), _orders(experiment, "learnt"))
    answered = measure.answers(ask, MEMORY, work, questions, adapter)
    text = Design((Part(MemoryArm.PUBLISHED, (0,)),))
    published = measure.answers(ask, MEMORY, replace(work, design=text), questions, adapter)
    more = Design(tuple(Part(MemoryArm.OPTIONS, (k,)) for k in range(1, config.option_orders + 1)))
    reordered = measure.answers(ask, MEMORY, replace(work, design=more), questions, adapter)
    reading = Reading(
        correct=measure.scores(answered, questions, work, experiment.model.option_normalisation),
        margin=measure.margins(answered, n),
        text=measure.likelihoods(published, n),
        options=measure.option_orders(published, reordered, n, config.option_orders),
        errors=measure.failures([*answered, *published, *reordered]),
    )
    order = Design(tuple(Part(MemoryArm.ORDER, (k,)) for k in range(config.orders + 1)))
    for half, some in (("learnt", experiment.halves.learnt), ("others", experiment.halves.others)):
        own = replace(work, design=order, own=_orders(experiment, half))
        rows = measure.answers(ask, MEMORY, own, some, adapter)
        reading.order[half] = measure.shard_orders(rows, config.orders)
        reading.errors += measure.failures(rows)
    return reading


def _sweep(experiment: Experiment, ask: Ask, adapter: str) -> Reading:
    """The base model routes, as a spoilt one answers in place of relaying; the planted one works."""
    questions = experiment.halves.questions
    design = routers(parse_routers(experiment.config.r), draws=Draws.NESTED, ensemble_control=True)
    work = _work(experiment, design, None)
    rows = measure.answers(ask, SWEEP, work, questions, adapter, _messages(experiment, ask, work))
    correct = measure.scores(rows, questions, work, experiment.model.option_normalisation)
    return Reading(correct=correct, errors=measure.failures(rows))


def _messages(experiment: Experiment, ask: Ask, work: Work) -> measure.Prepared:
    """The routers' messages, written once: every plant is given the same."""
    path = experiment.path / "read" / "messages.json"
    parts = work.design.parts
    if not path.is_file():
        written = measure.prepare(ask, SWEEP, work, experiment.halves.questions)
        rows = [[id_, parts.index(part), [asdict(one) for one in said]] for (id_, part), said in written.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(rows), encoding="utf-8")
        beside.rename(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {(id_, parts[k]): [Generation(**one) for one in said] for id_, k, said in stored}


def _orders(experiment: Experiment, half: str) -> Orders:
    config = experiment.config
    folder = str((experiment.path / half).resolve())
    return Orders(folder, config.seed, config.shard_items, config.orders, config.option_orders)


def _work(experiment: Experiment, design: Design, own: object) -> Work:
    model = experiment.model
    return Work(
        design=design,
        protocol=experiment.protocol,
        model=model.name,
        reading=experiment.reading,
        preparing=model.preparing,
        answering=sampling_of(experiment.reading, model),
        seed=experiment.config.seed,
        own=own,
    )
