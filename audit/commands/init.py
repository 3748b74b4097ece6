"""Write audit.yaml: the model, questions, references and registry that the commands of this folder
are about.

examples: audit init; audit init --yes --endpoint http://127.0.0.1:8000/v1 --model-id my-model
--data exam.csv A word of a command has the last say. The file holds no key: it names the
environment variable that has it."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from audit.core.errors import ConfigError, UsageError
from audit.core.exits import OK, lines

# What is asked, by key; `model` decides whether the second question is asked.
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
    "api_key_env": "the environment variable that holds the key of the server (default: OPENAI_API_KEY)",
    "data": "a file of questions",
    "benchmark": "the name of a benchmark",
    "control_data": "a file of questions that the model cannot have seen",
    "control_benchmark": "the name of a benchmark that the model cannot have seen",
    "references": "models that answer the same questions, with commas between them",
    "registry": "a file or address where finished runs are registered",
}


def add_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for key, text in _OPTIONS.items():
        add(f"--{key.replace('_', '-')}", dest=key, metavar="VALUE", default="", help=text)
    add("--yes", action="store_true", help="ask nothing: the options are the answers")
    add("--force", action="store_true", help="replace the audit.yaml that is here")


def run(asked: argparse.Namespace) -> int:
    """Ask what no option answers, and write the file."""
    from audit.config.project import PROJECT, check_project, project_text, read_project
    from audit.shards.files import write_file

    path = Path(PROJECT)
    if path.exists() and not asked.force:
        raise ConfigError(
            f"{path} is here already. Expected a folder without one. Example: audit init --force"
        )
    answers = {key: str(getattr(asked, key)).strip() for key in _OPTIONS}
    if not asked.yes:
        answers |= _asked(answers)
    if not answers["model"] and not answers["endpoint"]:
        raise UsageError(
            "The model is not named. Expected one. Example: audit init --yes --endpoint http://127.0.0.1:8000/v1 "
            "--model-id my-model --data exam.csv"
        )
    listed = [one.strip() for one in answers["references"].strip("[]").split(",")]
    values = check_project({**answers, "references": [one for one in listed if one]}, PROJECT)
    write_file(path, project_text(values).encode())
    read_project(Path())
    print(f"{path}\nnext: {_next_plan(values)}")
    return OK


def _next_plan(values: Mapping[str, object]) -> str:
    """Return the plan of the audit that suits a model, with the words that it still needs."""
    if "endpoint" not in values:
        return "audit plan"
    words = []
    if not {"control_data", "control_benchmark"} & set(values):
        words.append("control_data=unseen.csv")
    if not values.get("references"):
        words.append("'references=[ref-a,ref-b,ref-c]'")
    return " ".join(["audit plan audit=memory", *words])


def _asked(given: dict[str, str]) -> dict[str, str]:
    """Return the answers to the questions that no option answers. UsageError if the input ends."""
    found = dict(given)
    for key, question in _QUESTIONS.items():
        named = {"model": ("model", "endpoint"), "data": ("data", "benchmark")}.get(key, (key,))
        if any(found[one] for one in named) or (key == "model_id" and not found["endpoint"]):
            continue
        found |= _placed(key, _answer(question))
    return found


def _placed(key: str, answer: str) -> dict[str, str]:
    """Return an answer under the key that it belongs to: an address is an endpoint, a name without
    a suffix is that of a benchmark."""
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
            "The input ended. Expected answers, or options. Example: audit init --yes --model qwen3_8b"
        )
    return line.strip()
