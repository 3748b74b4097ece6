"""Sets that were asked otherwise, as logs tell: sampled at another temperature, or cut off in one
of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.imports.checks import check_logs
from audit.imports.formats.helm import read_helm
from audit.imports.formats.inspect_log import read_json
from audit.imports.formats.lm_eval import read_lm_eval
from audit.imports.join import Joined
from audit.imports.record import Wanted

MODELS = ("judged", "first", "second", "third")


def inspect_log(
    path: Path, name: str, items: int, *, cut_off: int = 0, temperature: float | None = 0.0
) -> Path:
    """Write a log whose first replies ended at the token limit, and were wrong."""
    samples: list[dict[str, Any]] = [
        {
            "id": f"{name} {k}",
            "epoch": 1,
            "input": f"{name}: {k}?",
            "target": "7",
            "output": {"choices": [{"stop_reason": "max_tokens" if k < cut_off else "stop"}]},
            "scores": {"match": {"value": "I" if k < cut_off else "C", "answer": "7"}},
        }
        for k in range(items)
    ]
    about = {"model": "m", "task": name, "model_generate_config": {"temperature": temperature}}
    path.write_text(json.dumps({"status": "success", "eval": about, "samples": samples}))
    return path


def alike(tmp_path: Path, held_out: Sequence[dict[str, Any]]) -> dict[str, tuple[bool, str]]:
    """Return the checks of models whose exam was whole and greedy. held_out: how each was asked the
    other set."""
    joined = Joined()
    for model, how in zip(MODELS, held_out, strict=False):
        for name, items, settings in (("exam", 400, {}), ("new", 200, how)):
            log = read_json(
                inspect_log(tmp_path / f"{model}_{name}.json", name, items, **settings),
                Wanted(model, name),
            )
            joined.add(f"{model}_{name}", log.outcomes, log.unfinished, log.sampling)
    return {
        check.name: (check.passed, check.detail) for check in check_logs(joined, ["exam", "new"], 0)
    }


@pytest.mark.parametrize(
    ("held_out", "passed"),
    [
        pytest.param([{}] * 4, True, id="as the exam"),
        # 16 of 200 replies, 8 %, against 0 of 400: Fisher's p is C(200, 16) / C(600, 16) = 1e-8
        pytest.param([{"cut_off": 16}, {}, {}, {}], False, id="cut off, of the judged model alone"),
        pytest.param(
            [{"cut_off": 16}] * 4, True, id="cut off, of every model: the items are longer"
        ),
        pytest.param([{"cut_off": 16}], False, id="cut off, and no other model tells of the items"),
        pytest.param([{"cut_off": 2}, {}, {}, {}], True, id="1 % is no more than the limit"),
        pytest.param(
            [{"temperature": 0.7}, {}, {}, {}], False, id="sampled, of the judged model alone"
        ),
        pytest.param([{"temperature": 0.7}] * 4, False, id="sampled, of every model"),
        pytest.param([{"temperature": None}] * 4, True, id="the log does not tell"),
    ],
)
def test_sets_that_were_asked_otherwise_are_refused(
    held_out: list, passed: bool, tmp_path: Path
) -> None:
    result, detail = alike(tmp_path, held_out)["asked_alike"]
    assert result is passed
    if not passed:
        assert "judged" in detail and ("8.0%" in detail or "temperature 0.7 on new" in detail)


def test_logs_that_tell_nothing_have_no_check(tmp_path: Path) -> None:
    joined = Joined()
    for name in ("exam", "new"):
        path = tmp_path / f"{name}.json"
        samples = [
            {"id": k, "epoch": 1, "input": f"{name} {k}", "score": {"value": "C"}} for k in range(3)
        ]
        path.write_text(json.dumps({"eval": {"model": "m", "task": name}, "samples": samples}))
        joined.add(name, read_json(path, Wanted("m", name)).outcomes)
    assert "asked_alike" not in {log.name for log in check_logs(joined, ["exam", "new"], 0)}


def test_real_logs_tell_how_they_were_sampled(shared_data: Path) -> None:
    """HELM's multiple choice ends after one token by design: every reply of every set is cut off,
    and none differs."""
    logs = shared_data / "eval_logs"
    of_lm_eval = sorted((logs / "lm_eval").glob("samples_math*full*.jsonl"))
    assert of_lm_eval and {read_lm_eval(path, Wanted()).sampling for path in of_lm_eval} == {
        "temperature 0"
    }
    folders = [path.parent for path in sorted((logs / "helm").rglob("run_spec.json"))]
    assert folders and {read_helm(folder, Wanted()).sampling for folder in folders} == {
        "temperature 0"
    }
