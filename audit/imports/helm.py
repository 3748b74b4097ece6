"""A run folder of HELM: run_spec.json, scenario_state.json, per_instance_stats.json."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.errors import DataError
from audit.imports.record import Imported, Log, Record, Wanted, checked, document, outcome, sampling_of
from audit.imports.scores import Column, mean_of, share, shown

STATE, STATS, SPEC = "scenario_state.json", "per_instance_stats.json", "run_spec.json"
# The main metric of a scenario first: HELM computes exact_match for every scenario, also where a reply explains itself.
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
_MODEL = re.compile(r"[,:-]model=[^,]*")  # in the name of a run
_OF_ANSWERS = re.compile(r"match|correct|equiv|accuracy|pass@|\bem\b")  # names of metrics that say how many are right


def read_helm(path: Path, wanted: Wanted) -> Log:
    """DataError where a file is missing or of another shape."""
    missing = [name for name in (STATE, STATS, SPEC) if not (path / name).is_file()]
    if missing:
        raise DataError(f"{path} has no {' or '.join(missing)}. Expected a run folder of HELM, as helm-run writes it.")
    spec, state = document(path / SPEC), document(path / STATE)
    scores: dict[tuple[str, Any], Record] = {}
    for one in document(path / STATS):
        if not one.get("perturbation"):
            stats = {s["name"]["name"]: s for s in one["stats"]}
            scores.setdefault((one["instance_id"], one.get("train_trial_index")), {}).update(stats)
    model = wanted.model or str(spec["adapter_spec"]["model"])
    benchmark = wanted.benchmark or _MODEL.sub("", str(spec["name"]))
    requests = [one for one in state["request_states"] if not one["instance"].get("perturbation")]
    columns = _columns(scores)
    score = wanted.score_of(columns, METRICS, str(path))
    wanted = replace(wanted, model=model, benchmark=benchmark, metric=score)
    outcomes, sampling = _outcomes(path, requests, scores, wanted), sampling_of(spec["adapter_spec"])
    return Log("helm", "", outcomes, score, _notes(columns, score, path), sampling=sampling)


def _columns(scores: dict[tuple[str, Any], Record]) -> dict[str, Column]:
    """Return the metrics that say how many answers are right, by instance."""
    columns: dict[str, Column] = {}
    for (instance, trial), stats in scores.items():
        for name, stat in stats.items():
            if _OF_ANSWERS.search(name) and (read := share(stat.get("mean"))) is not None:
                columns.setdefault(name, {})[f"{instance}#{trial}"] = read
    return columns


def _notes(columns: dict[str, Column], score: str, path: Path) -> list[str]:
    """Return a sentence that names the metrics that disagree with the one that is read; none if all agree."""
    other = [f"{name} {shown(mean_of(one.values()))}" for name, one in columns.items() if one != columns[score]]
    read = f"{path.name}: {score} {shown(mean_of(columns[score].values()))} is read"
    return [f"{read}; other metrics disagree ({', '.join(other)}): choose by --metric"] if other else []


def _outcomes(
    path: Path, requests: list[Record], scores: dict[tuple[str, Any], Record], wanted: Wanted
) -> Iterator[Imported]:
    seen: set[tuple[str, int]] = set()
    for request in requests:
        instance = request["instance"]
        id_ = str(instance["id"])
        trial = int(request.get("train_trial_index") or 0)
        if (id_, trial) in seen:
            continue  # of method separate, each option is a request of its own
        seen.add((id_, trial))
        where = f"{path}, instance {id_}"
        found = scores.get((instance["id"], request.get("train_trial_index")), {})
        right, of = outcome(found[wanted.score_of(found, METRICS, where)].get("mean"), where)
        references = instance.get("references") or []
        texts = [checked(one["output"]["text"], where) for one in references]
        correct = [k for k, one in enumerate(references) if "correct" in one.get("tags", ())]
        known = request.get("output_mapping") and len(correct) == 1
        options, gold = (tuple(texts), correct[0]) if known else ((), None)
        text = checked(instance["input"]["text"], where)
        replies = (request.get("result") or {}).get("completions") or [{}]
        answer = str(replies[0].get("text", "")).strip()[:200]
        yield Imported(
            model=wanted.model,
            benchmark=wanted.benchmark,
            key=wanted.key_of(instance, text_key(text, options), where),
            sample=id_,
            right=right if answer else None,
            of=of,
            text=text,
            options=options,
            gold=gold,
            answer=answer,
            epoch=trial + 1,
            target=texts[correct[0]][:200] if len(correct) == 1 and not options else "",
            cut_off=_cut_off(replies[0]),
        )


def _cut_off(reply: Record) -> bool | None:
    """Return whether a reply ended at its token limit; None if the log does not tell."""
    reason = reply.get("finish_reason")
    reason = reason.get("reason") if isinstance(reason, dict) else reason
    return reason == "length" if isinstance(reason, str) and reason != "unknown" else None
