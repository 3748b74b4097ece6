"""Train a model on a list of examples, and save the weights after each dose (number of passes).

    python -m audit.plant.train JOB.json        trains
    python -m audit.plant.train JOB.json K      merges the adapter of K passes into the weights

The module runs in a separate process, so that torch's memory is free before an engine loads. The
exit code is 0, or 2 if the job is refused. The last line of stderr then states the reason.

The learning rate is constant, and no setting depends on the number of later passes. So the weights
after k passes equal the weights of a training that ends after k passes.
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

PROVENANCE = "plant.json"  # file that describes the training, in every saved folder
REFUSED = 2
_GIB = 1024**3
# Bytes per parameter. A frozen weight is bfloat16. A trained weight is float32, with its gradient
# and the two moments of Adam.
_BYTES_FULL, _BYTES_FROZEN = 16, 2
_SPARE = 2 * _GIB  # bytes for activations, logits and the libraries


@dataclass(frozen=True)
class Job:
    """Hold the settings of one training process.

    Attributes
    ----------
    path, revision : str, str or None
        Folder of the weights, or a hub id and its commit.
    target : str
        Folder in which the folders `passes-<k>` are written.
    method, rank, modules : str, int, str or list
        Training method, and the rank and the modules of the adapter.
    passes : tuple of tuple of Example
        Examples of each pass, in order.
    doses : tuple of int
        Numbers of passes after which weights are saved.
    lr, batch, seed, max_tokens : float or int
        Learning rate, number of sequences per step, seed, and largest number of tokens of a
        sequence.
    facts : dict or None
        Content of the file PROVENANCE in every saved folder. It states what was learnt, and by
        which model.
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
        """Read the description of a training from a JSON file."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        passes = []
        for examples in plain["passes"]:
            passes.append(tuple(Example(**example) for example in examples))
        return cls(**{**plain, "passes": tuple(passes), "doses": tuple(plain["doses"])})

    def to_json(self) -> str:
        """Return the description of the training as JSON, which `load` can read."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def folder(self, dose: int) -> Path:
        """Return the folder with the weights or the adapter after a number of passes."""
        return Path(self.target) / f"passes-{dose}"

    def merged(self, dose: int) -> Path:
        """Return the folder with the weights into which the adapter was merged."""
        return self.folder(dose).with_name(f"passes-{dose}-merged")


def train(job: Job) -> None:
    """Train a model, and save its weights after each dose.

    Parameters
    ----------
    job : Job
        Settings of the training.

    Raises
    ------
    TrainError
        If the free memory is too small, if weights are missing, or if the loss is not finite.
    ConfigError
        If an example has no token to learn.
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
        # peft keeps the adapter in float32, even if the weights are bfloat16.
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
    """Train for one pass, and return the mean loss per learnt token."""
    import torch

    model.train()
    total, learnt = 0.0, 0
    for batch_inputs in batches(examples, batch):
        optimizer.zero_grad(set_to_none=True)
        tensors = {name: torch.tensor(rows).to(device) for name, rows in batch_inputs.items()}
        target = tensors.pop("labels")
        # Logits need much memory, so they are computed only from the first position with a token to
        # learn.
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
    """Yield the inputs of the model, one batch at a time.

    Parameters
    ----------
    examples : sequence
        Token ids and masks, as returned by `audit.plant.texts.encode`.
    size : int
        Number of examples in a batch.

    Yields
    ------
    dict of str to list
        Model inputs of shape (B, T) for B examples of at most T tokens. They are padded on the
        left, so the learnt tokens are at the end. A token that is not learnt has the label -100.
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
    """Return the number of weights of a model, computed from the model's configuration only."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(job.path, revision=job.revision)
    with torch.device("meta"):
        return sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())


def free_memory(device: str) -> int:
    """Return the number of free bytes on the device that is used for training."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    memory = Path("/proc/meminfo").read_text(encoding="ascii")
    _, _, available = memory.partition("MemAvailable:")
    kibibytes, *_ = available.split()
    return int(kibibytes) * 1024


def check_memory(n: int, job: Job, free: int) -> None:
    """Raise TrainError if the free memory is too small for the training.

    The function is called before the weights are loaded.

    Parameters
    ----------
    n : int
        Number of weights of the model.
    job : Job
        Settings of the training.
    free : int
        Number of free bytes.

    Raises
    ------
    TrainError
        If the memory does not suffice.
    """
    need = n * (_BYTES_FULL if job.method == Method.FULL else _BYTES_FROZEN) + _SPARE
    if need > free:
        other = (
            "a smaller model"
            if job.method == Method.LORA
            else "train.method=lora, which needs an eighth,"
        )
        raise TrainError(
            f"Training {n / 1e9:.2f} billion weights ({job.method}) needs about {need / _GIB:.0f} "
            f"GiB, but {free / _GIB:.0f} GiB are free. Use {other} or a machine with more memory."
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
    """Save the weights after a dose.

    The folder gets its final name only when all files are written, so incomplete weights are never
    served.
    """
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
    """Yield a temporary folder. It is renamed to `folder` if the block raises no error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield work
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def merge(job: Job, dose: int) -> None:
    """Merge an adapter into the weights, for engines that cannot serve adapters.

    Parameters
    ----------
    job : Job
        Settings of the training.
    dose : int
        Number of passes after which the adapter was saved. The result is written to
        `Job.merged(dose)`.

    Raises
    ------
    TrainError
        If the adapter cannot be loaded.

    Notes
    -----
    The merged weights are computed in float32 and saved as bfloat16, like the weights from full
    fine-tuning.
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
        raise TrainError(
            f"{job.folder(dose)} contains no adapter of {job.path}: {error}"
        ) from error
    with _whole(job.merged(dose)) as work:
        _save_weights(model, AutoTokenizer.from_pretrained(job.path, revision=job.revision), work)
        shutil.copy(job.folder(dose) / PROVENANCE, work)


def main(path: str, merged: str = "") -> int:
    """Train a model, or merge an adapter into the weights if a number of passes is given.

    Parameters
    ----------
    path : str
        File that describes the training.
    merged : str
        Number of passes of the adapter to merge. With "", a model is trained.

    Returns
    -------
    int
        The exit code: 0, or 2 if the training or merging was refused.
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
