"""A whole audit in a few lines (does it matter whether a question is shouted?): what one has to bring, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from audit.audits import Audit, Roles, Work
from audit.config import CONF_DIR, RunConfig, check_run
from audit.prompting.prompts import direct_prompt
from audit.records import Design, Generation, Part, Presentation, Question
from audit.resolve import resolve_run
from audit.runtime.progress import Display
from audit.runtime.run import RunResult, run_audit
from audit.shards.schema import row_schema


@dataclass
class ToyConfig(RunConfig):
    volumes: int = 2


def design(config: ToyConfig) -> Design:
    """The question as it is, and once at each volume; its own part each, so that each is run again alone."""
    return Design((Part("original", (0,)), *(Part("variant", (k,)) for k in range(1, config.volumes + 1))))


def present(work: Work, question: Question, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The stem in capitals, with an exclamation mark for every volume. Without a letter it cannot be shouted."""
    (volume,) = part.levels
    stem = question.text.upper() + "!" * volume if volume else question.text
    prompt = direct_prompt(work.protocol, replace(question, text=stem), work.reading)
    error = "the question has no letter" if volume and question.text.upper() == question.text.lower() else None
    return [Presentation(prompt, question.options, question.gold, {"volume": volume}, error)]


TOY = Audit(
    name="toy",
    schema=row_schema("toy", 1, [("volume", pa.int16(), "exclamation marks")]),
    roles=Roles(baseline=("original", 0), treated="variant", arms=("original", "variant")),
    design=design,
    present=present,
)


def configured(*overrides: str) -> ToyConfig:
    """The sweep's configuration files serve any audit; of their keys a toy reads the shared ones."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF_DIR)):
        groups = ["+model=[scripted]", "+benchmark=elementary", "+protocol=song2026", "+cluster=local"]
        composed = compose(overrides=[*groups, *(f"++{word}" for word in overrides)])
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ToyConfig), composed))
    assert isinstance(config, ToyConfig)
    check_run(config, TOY.answering, TOY.templates)
    return config


def run_toy(run_dir: Path, *overrides: str) -> RunResult:
    config = configured(f"run_dir={run_dir}", "progress=false", *overrides)
    with Display(quiet=True) as display:
        return run_audit(resolve_run(TOY, config), {"seed": config.seed}, display)
