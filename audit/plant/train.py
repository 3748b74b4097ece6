"""Teach a model a list of examples, and save it at each dose.

    python -m audit.plant.train JOB.json        trains
    python -m audit.plant.train JOB.json K      merges the adapter of K passes into the weights

The module runs in a separate process, so that torch's memory is free before an engine loads. It
ends with exit code 0, or with 2 and the reason on the last line of stderr. The learning rate is
constant and nothing depends on later passes. So the weights after k passes are those of a training
that had k passes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import AuditError, ConfigError, TrainError
from audit.core.json_types import attributes
from audit.plant.texts import Example, Method, encode

PROVENANCE = "plant.json"  # file that every saved folder holds
REFUSED = 2
_GIB = 1024**3
# Bytes a parameter: a frozen weight is in bfloat16; a trained one in float32, with its gradient and
# Adam's two moments.
_BYTES_FULL, _BYTES_FROZEN = 16, 2
_SPARE = 2 * _GIB  # bytes for activations, logits and the libraries


@dataclass(frozen=True)
class Job:
    """Describe one training.

    Attributes
    ----------
    path, revision : str, str or None
        Folder of weights, or a hub id and its commit.
    target : str
        Folder of `passes-<k>`.
    method, rank, modules : str, int, str or list
        Method, and settings of an adapter.
    passes : tuple of tuple of Example
        Examples of each pass, in order.
    doses : tuple of int
        Numbers of passes after which to save.
    lr, batch, seed, max_tokens : float or int
        Learning rate, sequences to a step, seed, and length of a sequence.
    facts : dict or None
        Content of every provenance file (what was learnt, of which model).
    """

    path: str
    target: str
    method: str
    passes: tuple[tuple[Example, ...], ...]
    doses: tuple[int, ...]
    lr: float
    batch: int = 8
    seed: int = 42
    max_tokens: int = 1024
    rank: int = 16
    modules: str | list[str] = "all-linear"
    revision: str | None = None
    facts: dict[str, Any] | None = None

    @classmethod
    def load(cls, path: Path) -> Job:
        """Return the training that a file describes."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        passes = []
        for examples in plain["passes"]:
            passes.append(tuple(Example(**example) for example in examples))
        return cls(**{**plain, "passes": tuple(passes), "doses": tuple(plain["doses"])})

    def to_json(self) -> str:
        """Return the training as JSON, which `load` reads."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def folder(self, dose: int) -> Path:
        """Return the folder that holds the weights or the adapter after some passes."""
        return Path(self.target) / f"passes-{dose}"

    def merged(self, dose: int) -> Path:
        """Return the folder of the weights with the adapter merged in."""
        return self.folder(dose).with_name(f"passes-{dose}-merged")


def train(job: Job) -> None:
    """Train and save.

    Parameters
    ----------
    job : Job
        The training.

    Raises
    ------
    TrainError
        If memory or weights are missing, or the loss is not finite.
    ConfigError
        If examples cannot be learnt.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(job.path, revision=job.revision)
        rows = []
        for examples in job.passes:
            rows.append([encode(tokenizer, example, job.max_tokens) for example in examples])
        device = "cuda" if torch.cuda.is_available() else "cpu"
        check_memory(parameters(job), job, free_memory(device))
        # With bfloat16 weights peft still keeps the adapter in float32.
        dtype = torch.float32 if job.method == Method.FULL else torch.bfloat16
        model = AutoModelForCausalLM.from_pretrained(job.path, revision=job.revision, dtype=dtype)
    except (OSError, ValueError) as error:
        raise TrainError(f"The model {job.path} cannot be trained: {error}") from error
    torch.manual_seed(job.seed)
    model = _prepared(model.to(device), job)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=job.lr, weight_decay=0.0)
    losses: list[float] = []
    for k, encoded in enumerate(rows, start=1):
        started = time.monotonic()
        losses.append(_one_pass(model, optimizer, weights, encoded, job.batch, device))
        print(
            f"pass {k} of {len(rows)}: loss {losses[-1]:.3f}, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        if k in job.doses:
            _save(model, tokenizer, job, k, losses)


def _one_pass(
    model: Any, optimizer: Any, weights: Any, examples: Any, batch: int, device: str
) -> float:
    """Train one pass and return its mean loss per learnt token."""
    import torch

    model.train()
    total, learnt = 0.0, 0
    for batch_inputs in batches(examples, batch):
        optimizer.zero_grad(set_to_none=True)
        tensors = {name: torch.tensor(rows).to(device) for name, rows in batch_inputs.items()}
        target = tensors.pop("labels")
        # Only the last positions with something to learn get logits, as a vocabulary is large.
        keep = min(int((target >= 0).any(dim=0).sum()) + 1, target.shape[1])
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(**tensors, logits_to_keep=keep).logits
        next_tokens = target[:, 1 - keep :]
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), next_tokens.flatten()
        )
        if not torch.isfinite(loss):
            raise TrainError(
                "The loss is not finite: the learning rate is too high. "
                "Expected a lower one. Example: train.lr=1e-5."
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        count = int((target >= 0).sum())
        total, learnt = total + loss.item() * count, learnt + count
    return total / learnt


def batches(
    examples: Sequence[tuple[list[int], list[bool]]], size: int
) -> Iterator[dict[str, list[list[int]]]]:
    """Yield the inputs of the model, batch by batch.

    Parameters
    ----------
    examples : sequence
        Token ids and masks, as `audit.plant.texts.encode` returns them.
    size : int
        Examples of a batch.

    Yields
    ------
    dict of str to list
        Inputs, (B, T) each, padded on the left, so that the learnt tokens are at the end. A token
        that is not learnt has the label -100.
    """
    for i in range(0, len(examples), size):
        part = examples[i : i + size]
        width = max(len(ids) for ids, _ in part)
        inputs = defaultdict(list)
        for ids, learnt in part:
            pad = width - len(ids)
            labels = np.where(learnt, ids, -100).tolist()
            inputs["input_ids"].append([0] * pad + ids)
            inputs["attention_mask"].append([0] * pad + [1] * len(ids))
            inputs["position_ids"].append([0] * pad + list(range(len(ids))))
            inputs["labels"].append([-100] * pad + labels)
        yield dict(inputs)


def parameters(job: Job) -> int:
    """Return the number of a model's weights, from its configuration alone."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(job.path, revision=job.revision)
    with torch.device("meta"):
        return sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())


def free_memory(device: str) -> int:
    """Return how many bytes are free on the device that trains."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    memory = Path("/proc/meminfo").read_text(encoding="ascii")
    _, _, available = memory.partition("MemAvailable:")
    kibibytes, *_ = available.split()
    return int(kibibytes) * 1024


def check_memory(n: int, job: Job, free: int) -> None:
    """Raise if some weights cannot be trained in the free memory, before they are loaded.

    Parameters
    ----------
    n : int
        Number of weights.
    job : Job
        The training.
    free : int
        Free bytes.

    Raises
    ------
    TrainError
        If the memory is too small.
    """
    need = n * (_BYTES_FULL if job.method == Method.FULL else _BYTES_FROZEN) + _SPARE
    if need > free:
        other = (
            "a smaller model"
            if job.method == Method.LORA
            else "train.method=lora, which needs an eighth,"
        )
        raise TrainError(
            f"Training {n / 1e9:.2f} billion weights ({job.method}) needs about {need / _GIB:.0f} GiB; "
            f"{free / _GIB:.0f} GiB are free. Use {other} or a machine with more memory."
        )


def _prepared(model: Any, job: Job) -> Any:
    if job.method == Method.FULL:
        return model
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=job.rank, lora_alpha=2 * job.rank, target_modules=job.modules, task_type="CAUSAL_LM"
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise TrainError(f"train.modules={job.modules} does not fit the model: {error}") from error


def _save(model: Any, tokenizer: Any, job: Job, dose: int, losses: Sequence[float]) -> None:
    """Save the weights of a dose. A folder that was not written completely is never served."""
    lora = job.method == Method.LORA
    about = {
        **(job.facts or {}),
        **attributes(job, "method", "lr", "batch", "seed"),
        "passes": dose,
        "rank": job.rank if lora else None,
        "modules": job.modules if lora else None,
        "loss_by_pass": [round(x, 4) for x in losses],
    }
    with _whole(job.folder(dose)) as work:
        model.save_pretrained(work) if lora else _save_weights(model, tokenizer, work)
        (work / PROVENANCE).write_text(
            json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )


def _save_weights(model: Any, tokenizer: Any, folder: Path) -> None:
    import torch

    halved = {name: weight.to(torch.bfloat16) for name, weight in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=halved)
    tokenizer.save_pretrained(folder)


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into, which becomes `folder` if the block ends well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield work
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def merge(job: Job, dose: int) -> None:
    """Merge the adapter of some passes into the weights, for engines that serve no adapter.

    Parameters
    ----------
    job : Job
        The training.
    dose : int
        Number of passes; the result is `Job.merged(dose)`.

    Raises
    ------
    TrainError
        If the adapter cannot be loaded.

    Notes
    -----
    The merge is computed in float32 and saved as bfloat16, like a model trained in full.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        base = AutoModelForCausalLM.from_pretrained(
            job.path, revision=job.revision, dtype=torch.float32
        )
        model = PeftModel.from_pretrained(base, str(job.folder(dose))).merge_and_unload()
    except (OSError, ValueError, RuntimeError) as error:
        raise TrainError(f"{job.folder(dose)} holds no adapter of {job.path}: {error}") from error
    with _whole(job.merged(dose)) as work:
        _save_weights(model, AutoTokenizer.from_pretrained(job.path, revision=job.revision), work)
        shutil.copy(job.folder(dose) / PROVENANCE, work)


def main(path: str, merged: str = "") -> int:
    """Train, or merge the adapter of some passes if their number is given.

    Parameters
    ----------
    path : str
        File of the job.
    merged : str
        Number of passes whose adapter is merged.

    Returns
    -------
    int
        0, or 2 if the job was refused.
    """
    try:
        job = Job.load(Path(path))
        merge(job, int(merged)) if merged else train(job)
    except (AuditError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
