"""Write audit.yaml: the model, questions, references and registry of the commands in this folder.

examples: audit init; audit init --yes --endpoint http://127.0.0.1:8000/v1 --model-id my-model
--data exam.csv

The arguments of a command take precedence over the file. The file holds no key of a server: it
names the environment variable that holds the key."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from audit.core.errors import ConfigError, UsageError
from audit.core.exits import OK, lines

# The prompt for each key. The second prompt is printed only if the first answer is an address.
_QUESTIONS = {
    "model": "Model: the address of a server (http://...), a name of conf/model, or hf:ORG/NAME",
    "model_id": "Name of the model on that server",
    "data": "Questions: a file, or the name of a benchmark",
    "references": "References, with commas between them (empty: none)",
    "registry": "Registry of finished runs: a file or address (empty: none)",
}
_OPTIONS = {
    "model": "a name of conf/model, or hf:ORG/NAME",
    "endpoint": "an OpenAI-compatible server",
    "model_id": "the name of the model on that server",
    "api_key_env": "the environment variable with the key of the server (default: OPENAI_API_KEY)",
    "data": "a file of questions",
    "benchmark": "the name of a benchmark",
    "control_data": "a file of questions that the model cannot have seen",
    "control_benchmark": "the name of a benchmark that the model cannot have seen",
    "references": "models that answer the same questions, with commas between them",
    "registry": "a file or address where finished runs are registered",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each key of audit.yaml."""
    add = parser.add_argument
    for key, text in _OPTIONS.items():
        add(f"--{key.replace('_', '-')}", dest=key, metavar="VALUE", default="", help=text)
    add("--yes", action="store_true", help="do not prompt: use the options only")
    add("--force", action="store_true", help="replace an existing audit.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Ask for the settings that no option states, and write audit.yaml.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ConfigError
        If the file exists and --force is not set.
    UsageError
        If no model is named.
    """
    from audit.config.project import PROJECT, check_project, project_text, read_project
    from audit.shards.files import write_file

    path = Path(PROJECT)
    if path.exists() and not arguments.force:
        raise ConfigError(
            f"{path} exists. Expected a folder without this file. Example: audit init --force"
        )
    answers = {key: str(getattr(arguments, key)).strip() for key in _OPTIONS}
    if not arguments.yes:
        answers |= _settings(answers)
    if not answers["model"] and not answers["endpoint"]:
        raise UsageError(
            "The model is missing. Expected a name or an endpoint. Example: audit init --yes "
            "--endpoint http://127.0.0.1:8000/v1 --model-id my-model --data exam.csv"
        )
    listed = [name.strip() for name in answers["references"].strip("[]").split(",")]
    references = [name for name in listed if name]
    values = check_project({**answers, "references": references}, PROJECT)
    write_file(path, project_text(values).encode())
    read_project(Path())
    print(f"{path}\nnext: {_next_plan(values)}")
    return OK


def _next_plan(values: Mapping[str, object]) -> str:
    """Return the command that plans an audit of this model. Placeholders mark missing settings."""
    if "endpoint" not in values:
        return "audit plan"
    words = []
    if not {"control_data", "control_benchmark"} & set(values):
        words.append("control_data=unseen.csv")
    if not values.get("references"):
        words.append("'references=[ref-a,ref-b,ref-c]'")
    return " ".join(["audit plan audit=memory", *words])


def _settings(given: dict[str, str]) -> dict[str, str]:
    """Return the settings of the options, and the settings that a person typed at prompts.

    Raises UsageError if the input ends before all prompts are answered.
    """
    settings = dict(given)
    for key, question in _QUESTIONS.items():
        stated = {"model": ("model", "endpoint"), "data": ("data", "benchmark")}.get(key, (key,))
        needless = key == "model_id" and not settings["endpoint"]
        if needless or any(settings[name] for name in stated):
            continue
        settings |= _placed(key, _answer(question))
    return settings


def _placed(key: str, answer: str) -> dict[str, str]:
    """Return a dict with the answer to a prompt, under the key of its setting.

    An address becomes `endpoint`, and a name without a suffix becomes `benchmark`.
    """
    if key == "model" and "://" in answer:
        return {"endpoint": answer}
    if key == "data" and answer and not Path(answer).suffix and not Path(answer).exists():
        return {"benchmark": answer}
    return {key: answer}


def _answer(question: str) -> str:
    print(lines(f"{question}: "), end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError(
            "The input ended before all prompts were answered. Expected answers or options. "
            "Example: audit init --yes --model qwen3_8b"
        )
    return line.strip()
