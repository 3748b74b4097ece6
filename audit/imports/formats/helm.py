"""Read a run folder of HELM with the files run_spec.json, scenario_state.json and
per_instance_stats.json.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted, checked, document, sampling_of
from audit.imports.scores import Column, Outcome, shares

STATE, STATS, SPEC = "scenario_state.json", "per_instance_stats.json", "run_spec.json"
# The main metrics of scenarios come first. HELM computes exact_match for every scenario, even if
# the replies contain explanations and so are never exact matches.
METRICS = (
    "chain_of_thought_correctness",
    "final_number_exact_match",
    "math_equiv_chain_of_thought",
    "math_equiv",
    "ifeval_strict_accuracy",
    "omni_math_accuracy",
    "exact_match",
    "quasi_exact_match",
)
_MODEL = re.compile(r"[,:-]model=[^,]*")  # pattern of the model in the name of a run
# A metric with one of these names is the share of right answers.
_OF_ANSWERS = re.compile(r"match|correct|equiv|accuracy|pass@|\bem\b")
Means = dict[tuple[str, Any], Record]  # maps (instance, trial) to the means of the metrics


def read_helm(path: Path, wanted: Wanted) -> Log:
    """Return the log of a run folder.

    One metric is read as the score. A note names every metric that disagrees with this metric.

    Raises
    ------
    DataError
        If a file is missing or has another structure, or if no metric states how many answers are
        right.
    """
    missing = [name for name in (STATE, STATS, SPEC) if not (path / name).is_file()]
    if missing:
        raise DataError(
            f"{path} has no {' or '.join(missing)}. Expected a run folder of HELM, as helm-run writes it."
        )
    spec, state = document(path / SPEC), document(path / STATE)
    means: Means = {}
    for instance in document(path / STATS):
        if not instance.get("perturbation"):
            trial = (instance["instance_id"], instance.get("train_trial_index"))
            metrics = means.setdefault(trial, {})
            for stat in instance["stats"]:
                metrics[stat["name"]["name"]] = stat.get("mean")
    model = wanted.model or str(spec["adapter_spec"]["model"])
    task = _MODEL.sub("", str(spec["name"]))
    wanted = replace(wanted, model=model, benchmark=wanted.benchmark or task)
    samples = list(_samples(path, state["request_states"], means, wanted, task))
    if not any(sample.scores for sample in samples):
        listed = ", ".join(dict.fromkeys(chain.from_iterable(means.values())))
        raise DataError(
            f"{path} has no metric of right answers: {listed:.500}. Expected a metric such as "
            "exact_match."
        )
    choose, sampling = partial(_choose, wanted), sampling_of(spec["adapter_spec"])
    log = graded_log("helm", path, lambda: samples, wanted, choose=choose, sampling=sampling)
    for sample in samples:
        if log.score not in sample.scores:
            raise DataError(
                f"{sample.where} has no {log.score}. Expected this metric for every instance."
            )
    return log


def _choose(wanted: Wanted, columns: Mapping[str, Column], metric: str, where: str) -> str:
    return wanted.score_of(columns, METRICS, where)


def _samples(
    path: Path, requests: list[Record], means: Means, wanted: Wanted, task: str
) -> Iterator[Sample]:
    """Yield the samples, except perturbed copies of an item.

    With the method `separate`, HELM sends one request for each option of an item. Only the first of
    these requests is yielded.
    """
    seen: set[tuple[str, int]] = set()
    for request in requests:
        instance, trial = request["instance"], int(request.get("train_trial_index") or 0)
        name = str(instance["id"])
        if instance.get("perturbation") or (name, trial) in seen:
            continue
        seen.add((name, trial))
        where = f"{path}, instance {name}"
        texts, correct = [], []
        for place, reference in enumerate(instance.get("references") or []):
            texts.append(checked(reference["output"]["text"], where))
            if "correct" in reference.get("tags", ()):
                correct.append(place)
        trial_means = means.get((instance["id"], request.get("train_trial_index")), {})
        known = request.get("output_mapping") and len(correct) == 1
        replies = (request.get("result") or {}).get("completions") or [{}]
        answer = str(replies[0].get("text", "")).strip()
        yield Sample(
            model=wanted.model,
            benchmark=wanted.benchmark,
            task=task,
            name=name,
            where=where,
            scores=_scores(trial_means),
            record=instance,
            text=checked(instance["input"]["text"], where),
            options=tuple(texts) if known else (),
            gold=correct[0] if known else None,
            answer=answer,
            target=texts[correct[0]] if len(correct) == 1 else "",
            epoch=trial + 1,
            unscored=not answer,
            cut_off=_cut_off(replies[0]),
        )


def _scores(metrics: Record) -> dict[str, Outcome]:
    """Map each metric that is a share of right answers to its outcome."""
    return shares({name: mean for name, mean in metrics.items() if _OF_ANSWERS.search(name)})


def _cut_off(reply: Record) -> bool | None:
    """Return whether a reply ended at its token limit; None if the log does not state it."""
    reason = reply.get("finish_reason")
    reason = reason.get("reason") if isinstance(reason, dict) else reason
    return reason == "length" if isinstance(reason, str) and reason != "unknown" else None
