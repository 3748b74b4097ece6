"""Expand the short forms of arguments to arguments that Hydra composes, with notes for people.

    model=hf:ORG/NAME[@REVISION]        a derived configuration; also for worker= and in references=
    endpoint=URL model_id=NAME          an OpenAI-compatible endpoint, under the name of the model
    references=[ID,ID@URL]              with endpoint=: other models of this server or another one
    judge=ID or ID@URL                  the same for the model that votes
    data=exam.csv                       benchmark=mcq_file with this path and the name of the file
    control_data=unseen.csv             the same for control_benchmark
    preset=song2026                     conf/preset/song2026.yaml: other defaults for several keys
    control_benchmark=auto              the held-out twin that conf/benchmark/NAME.yaml names
    fresh_after=DATE                    a split of a benchmark: items after this date are held out

A derived configuration becomes an option of Hydra's group model, so words can change its keys.
Hydra does not compose the configurations of references and judges. So this module merges
model.REFERENCE.KEY=VALUE into the derived configuration.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from yaml import YAMLError

from audit.benchmarks.fresh import following
from audit.config.base import (
    _DESCRIBED,
    as_file,
    described_models,
    known_models,
    load_group,
    load_model_config,
    options_of,
)
from audit.config.plain_words import folders_of
from audit.core.errors import ConfigError, check_known
from audit.engines.config import ModelConfig
from audit.engines.openai_config import safe_url
from audit.engines.weights import hub_text

HF, _ENDPOINT = "hf:", "openai_compatible"
# Map audits to their default benchmarks; docs/understand/decisions.md has the reasons.
PUBLIC = {"sweep": "mmlu", "memory": "mmlu"}
# size of the context in tokens; the prompts of every audit fit into half of it
_CONTEXT = 16384
# Number of bytes that weights may use on a GPU of 80 GB. A fifth of the usable memory is left for
# the KV cache.
_WEIGHT_BYTES = 0.8 * 0.9 * 80e9
# This chat template is used for base models.
_PLAIN = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
_HUB_WORD = re.compile(r"hf:[^],\s]*")
_NO_MODEL = ("", "none", "null")


def expand(words: Sequence[str], audit: str) -> tuple[list[str], list[str]]:
    """Expand the short forms of a command.

    Parameters
    ----------
    words : Sequence[str]
        The arguments after the command.
    audit : str
        The command. It decides the default benchmark.

    Returns
    -------
    words : list[str]
        The arguments that Hydra composes.
    notes : list[str]
        Lines for people that state which models and settings were chosen.

    Raises
    ------
    ConfigError
        If a short form is incomplete.

    Examples
    --------
    >>> expand(["data=my exam.csv"], "sweep")[0]
    ['benchmark=mcq_file', 'benchmark.path="my exam.csv"', 'benchmark.name=my_exam']
    """
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            given[key] = value
    note_local_models(words)
    notes: list[str] = []
    expanded: list[str] = []
    for word in words:
        expanded += _expanded(word, given, notes)
    expanded = _changed(expanded)
    # A configuration file of the user may set another default benchmark.
    has_file = any(word.startswith(("-c", "--config")) for word in words)
    has_benchmark = has_file or "benchmark" in given or "data" in given
    if audit in PUBLIC and not has_benchmark and _is_real(expanded):
        name = PUBLIC[audit]
        note = (
            f"benchmark {name} (hub {load_group('benchmark', name)['hub']}) is the default of real "
            "models. Without a network: benchmark.path=FOLDER of the authors' files, "
            "data=my_exam.csv, or benchmark=elementary"
        )
        return [f"benchmark={name}", *expanded], [note, *notes]
    return expanded, notes


def _expanded(word: str, given: Mapping[str, str], notes: list[str]) -> list[str]:
    """Return the arguments that one short form stands for.

    `given` maps the key of each argument of the command to its value.
    """
    key, _, value = word.partition("=")
    if key == "endpoint":
        return [_endpoint(given, notes)]
    if key in ("model_id", "api_key_env"):
        if "endpoint" not in given:
            raise ConfigError(f"{word} needs an endpoint. Expected {_EXAMPLE}.")
        return []
    if key == "data":
        return _exam(word, value, given)
    if key == "control_data":
        return _held_out_items(word, value, given)
    if key == "references":
        value = _served_references(value, given, notes)
    if key == "judge" and value not in _NO_MODEL:
        return [f"judge={_served(value.strip(), given, notes, role='judge')}"]
    if key in ("model", "worker", "references"):
        return [f"{key}={_HUB_WORD.sub(lambda match: _of_hub(match[0], notes), value)}"]
    return [f"+{word}" if key == "preset" else word]


def _exam(word: str, file: str, given: Mapping[str, str]) -> list[str]:
    """Return the arguments of data=FILE."""
    if "benchmark" in given:
        raise ConfigError(
            f"{word} and benchmark={given['benchmark']} name two benchmarks. Expected one of them."
        )
    if not file:
        raise ConfigError("data= names no file. Expected a file. Example: data=my_exam.csv")
    return data_words(file)


def _held_out_items(word: str, file: str, given: Mapping[str, str]) -> list[str]:
    """Return the arguments of control_data=FILE."""
    if "control_benchmark" in given:
        raise ConfigError(
            f"{word} and control_benchmark={given['control_benchmark']} name two held-out sets. "
            "Expected one of them."
        )
    if not file:
        raise ConfigError(
            "control_data is empty. Expected a file. Example: control_data=unseen.csv"
        )
    return [f"control_{data_word}" for data_word in data_words(file)]


def _names(words: Sequence[str], keys: tuple[str, ...]) -> list[str]:
    """Return the names in the values of some keys, which are written as NAME or [NAME,...]."""
    values = [word.partition("=")[2] for word in words if word.startswith(keys)]
    return re.findall(r"[^\[\],'\" ]+", ",".join(values))


def _changed(words: Sequence[str]) -> list[str]:
    """Merge model.NAME.KEY=VALUE into the derived configuration of the reference or judge NAME.

    Return the other arguments, which Hydra composes.
    """
    names = {*_names(words, ("references=", "judge="))} - {*_names(words, ("model=",))}
    fields = [str(field) for field in OmegaConf.structured(ModelConfig)]
    left: list[str] = []
    changes = defaultdict[str, list[str]](list)
    for word in words:
        match = re.match(r"\+{0,2}model\.([^.=]+)\.([^=]+=.*)", word, re.DOTALL)
        if match and match[1] in names & described_models().keys():
            changes[match[1]].append(match[2])
        else:
            left.append(word)
    for name, values in changes.items():
        for value in values:
            check_known(f"key of model.{name}", re.split("[.=]", value)[0], fields)
        merged = OmegaConf.merge(
            OmegaConf.create(dict(described_models()[name])), OmegaConf.from_dotlist(values)
        )
        _store(name, cast(dict[str, Any], OmegaConf.to_container(merged)))
    return left


@contextmanager
def one_call() -> Iterator[None]:
    """Return a context that forgets, at its end, the models that were described within it.

    The context is one call of the Python API. A later call must not find the models of an earlier
    call.
    """
    token = _DESCRIBED.set({})
    try:
        yield
    finally:
        group = ConfigStore.instance().repo.get("model", {})
        for name in described_models():
            group.pop(f"{name}.yaml", None)
        _DESCRIBED.reset(token)


def note_local_models(words: Sequence[str]) -> None:
    """Add the models in the folders of hydra.searchpath to the described models.

    Suites and references find the models there.
    """
    for word in words:
        key, _, value = word.partition("=")
        folders = folders_of(value) if key == "hydra.searchpath" else []
        for folder in folders:
            for path in folder.glob("model/*.yaml"):
                # Hydra reports the mistake in this file if its model is requested.
                with suppress(YAMLError):
                    loaded = OmegaConf.to_container(OmegaConf.load(path))
                    if isinstance(loaded, dict):
                        described_models()[path.stem] = {str(k): v for k, v in loaded.items()}


def data_words(path: str) -> list[str]:
    """Return the arguments that select a question file as the benchmark.

    >>> data_words("exam.csv")
    ['benchmark=mcq_file', 'benchmark.path="exam.csv"', 'benchmark.name=exam']
    """
    return [
        "benchmark=mcq_file",
        f"benchmark.path={quoted(path)}",
        f"benchmark.name={safe_name(Path(path).stem)}",
    ]


def quoted(text: str) -> str:
    """Return a text in quotes, which Hydra reads unchanged."""
    return json.dumps(text, ensure_ascii=False)


def safe_name(text: str) -> str:
    """Return a name for shards, folders and keys. It has no dot, which would separate keys.

    >>> safe_name("meta-llama/Llama-3.1-8B")
    'meta-llama_Llama-3_1-8B'
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-") or "unnamed"
    return f"{name}_" if name in known_models() else name


def hub_name(model_id: str) -> str:
    """Return the name of a model of the hub, from its file in conf/model or from its id."""
    for name in known_models():
        if load_model_config(name).path == model_id:
            return name
    return safe_name(model_id)


# The arguments edits=show and score=FILE need no model.
_NAME_A_MODEL = ("model", "endpoint", "edits", "score")


def need_model(words: Sequence[str]) -> None:
    """Raise ConfigError if the arguments name no model.

    No model is needed with an option of Hydra, or with an argument such as edits=show.
    """
    keys = {word.partition("=")[0] for word in words}
    if keys.isdisjoint(_NAME_A_MODEL) and not any(word.startswith("-") for word in words):
        raise ConfigError(
            "No model is named. Expected one of:\n"
            "  model=NAME                  a file of conf/model. Example: model=qwen3_8b\n"
            "  model=hf:ORG/NAME           a model of the hub. Example: model=hf:Qwen/Qwen3-8B\n"
            "  endpoint=URL model_id=ID    a server with an OpenAI-compatible API\n"
            "The included model (135 million parameters) serves demonstrations: model=smollm2_135m"
        )


_EXAMPLE = (
    "endpoint=http://127.0.0.1:8000/v1 model_id=my-model (and api_key_env=VARIABLE if the key is "
    "not in OPENAI_API_KEY)"
)


def _endpoint(given: Mapping[str, str], notes: list[str]) -> str:
    if not given.get("model_id") or "model" in given:
        raise ConfigError(f"endpoint= needs model_id=NAME, without model=. Expected {_EXAMPLE}.")
    if "://" not in given["endpoint"] and "@" not in given["endpoint"]:
        raise ConfigError(
            f"endpoint is {given['endpoint']}. Expected a complete address. "
            f"Example: endpoint=http://{given['endpoint']}"
        )
    name = _serve(given["model_id"], given["endpoint"], given.get("api_key_env"), notes)
    return f"model={name}"


def _served_references(value: str, given: Mapping[str, str], notes: list[str]) -> str:
    """Return the references. The name of its configuration replaces each model of an endpoint.

    ID@URL is a model of the endpoint at URL. If endpoint= is set, every other name that is not a
    known model, path or set is the ID of a model of the same server.
    """
    names = []
    for part in value.strip().removeprefix("[").removesuffix("]").split(","):
        names.append(part.strip(" '\""))
    if not any(names):
        return value
    return f"[{','.join(_served(name, given, notes) for name in names)}]"


def _served(name: str, given: Mapping[str, str], notes: list[str], role: str = "reference") -> str:
    """Return the name of the configuration for a reference or judge.

    If a server serves the model, its configuration is derived and stored first.
    """
    model_id, at, url = name.partition("@")
    if at and "://" in url:
        # The key in api_key_env is sent only to the server of endpoint=, never to another server.
        key_env: str | None = f"{safe_name(model_id).upper().replace('-', '_')}_API_KEY"
        if _origin(url) == _origin(given.get("endpoint", "")):
            key_env = given.get("api_key_env")
    elif not name or "endpoint" not in given or _is_known(name):
        return name
    else:
        model_id, url, key_env = name, given["endpoint"], given.get("api_key_env")
    from audit.config.references import nearest_run  # Only this short form needs this module.

    missing = nearest_run(name)
    if missing:
        raise ConfigError(
            f"{role.capitalize()} is {name}, a path without a run.{missing} Expected the directory "
            f"of a run, or the ID of a model at {safe_url(url)}. Example: outputs/my_run"
        )
    if not model_id:
        raise ConfigError(
            f"{role.capitalize()} is {name!r}. Expected MODEL_ID@URL. Example: gpt-4o@{url}"
        )
    tested = safe_name(given.get("model_id", ""))
    if safe_name(model_id) == tested and url != given.get("endpoint"):
        raise ConfigError(
            f"{role.capitalize()} {model_id} at {safe_url(url)} has the name of the model at "
            f"{safe_url(given['endpoint'])}. Expected different names. Write a file "
            "FOLDER/model/NAME.yaml for one of them. Example: 'hydra.searchpath=[FOLDER]'"
        )
    return _serve(model_id, url, key_env, notes, role=role)


def _is_known(reference: str) -> bool:
    """Return True if a name is a configuration, a reference set, a model of the hub, or an existing
    path."""
    if reference in (*known_models(), *described_models()) or reference.startswith((HF, "set:")):
        return True
    return any(Path(path).exists() for path in (reference, reference.partition("@")[2]) if path)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _serve(
    model_id: str, url: str, key_env: str | None, notes: list[str], role: str = "model"
) -> str:
    """Store the configuration of a model that an endpoint serves, and return the configuration's
    name."""
    node, name = load_group("model", _ENDPOINT), safe_name(model_id)
    endpoint = node["endpoints"][0] | {"url": url, "model": model_id}
    if key_env:
        endpoint["api_key_env"] = key_env
    _store(name, node | {"name": name, "endpoints": [endpoint]})
    notes.append(f"{role} {name}: {model_id} at {safe_url(url)}; to change it: model.{name}.KEY=")
    return name


def _of_hub(word: str, notes: list[str]) -> str:
    """Return the name of the configuration for hf:ORG/NAME[@REVISION]."""
    path, _, revision = word.removeprefix(HF).strip("'\"").partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        raise ConfigError(
            f"{word} is not a model of the hub. Expected hf:ORG/NAME. "
            "Example: model=hf:Qwen/Qwen3-8B"
        )
    name = hub_name(path)
    if name in known_models() and not revision:
        notes.append(f"model {name}: conf/model/{name}.yaml is the configuration of {path}")
        return name
    version = path, revision or None
    config = _hub_json(*version, "config.json")
    tokenizer = None if config is None else _hub_json(*version, "tokenizer_config.json")
    # If the tokenizer cannot be read, the model is assumed to have a chat template.
    chats = tokenizer is None or bool(tokenizer.get("chat_template"))
    node = derived(*version, config, chats or hub_text(*version, "chat_template.jinja") is not None)
    name = safe_name(f"{path}@{revision}") if revision else name
    _store(name, {"name": name, **node})
    assumed = (
        "" if config else " (config.json cannot be read, so a chat model on one GPU is assumed)"
    )
    notes.append(
        f"model {path} has the following configuration{assumed}. To change it: model.{name}.KEY=. "
        f"The run stores it in its directory as model/{name}.yaml:\n"
        f"{as_file(name, described_models()[name]).rstrip()}"
    )
    return name


def _hub_json(path: str, revision: str | None, file: str) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        read = json.loads(hub_text(path, revision, file) or "null")
        return read if isinstance(read, dict) else None
    return None


def derived(
    path: str, revision: str | None, config: Mapping[str, Any] | None, chats: bool
) -> dict[str, Any]:
    """Derive the configuration of a model of the hub.

    Parameters
    ----------
    path : str
        The model, such as ORG/NAME.
    revision : str or None
        Its revision.
    config : Mapping or None
        The model's config.json. None if the file cannot be read.
    chats : bool
        True if the model has a chat template. Otherwise the likelihoods of the options are read.

    Returns
    -------
    dict[str, Any]
        The values by key. The number of GPUs is enough for the weights on GPUs of 80 GB.
    """
    text = (config or {}).get("text_config") or config or {}
    gpus, size = 1, weight_bytes(text, (config or {}).get("quantization_config"))
    while size and size > gpus * _WEIGHT_BYTES:
        gpus *= 2
    return {
        "engine": "vllm",
        "path": path,
        "revision": revision,
        "reading": "letter" if chats else "option_text",
        "tensor_parallel_size": gpus,
        "max_model_len": min(_CONTEXT, text.get("max_position_embeddings") or _CONTEXT),
        "chat_template_kwargs": {"enable_thinking": False} if chats else {"chat_template": _PLAIN},
    }


def weight_bytes(
    config: Mapping[str, Any], quantization: Mapping[str, Any] | None = None
) -> float | None:
    """Estimate the bytes of a decoder's weights.

    The sum is over attention, gated feed-forward layers (all experts) and embeddings.

    Parameters
    ----------
    config : Mapping
        The model's config.json.
    quantization : Mapping or None
        Settings of the model's quantization. Without quantization a parameter has two bytes.

    Returns
    -------
    float or None
        The bytes, or None if a dimension is missing.
    """
    try:
        width, heads = config["hidden_size"], config["num_attention_heads"]
        layers = config["num_hidden_layers"]
        attention = 2 * width * (config.get("head_dim") or width // heads)
        attention *= heads + (config.get("num_key_value_heads") or heads)
        experts = 1
        for key in ("n_routed_experts", "num_local_experts", "num_experts"):
            experts = config.get(key) or experts
        inner = config.get("moe_intermediate_size") or config["intermediate_size"]
        feed_forward = 3 * width * experts * inner
        tied = config.get("tie_word_embeddings")
        embeddings = config["vocab_size"] * width * (1 if tied else 2)
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    bits = 16 if not quantization else quantization.get("bits") or 8
    return float((layers * (attention + feed_forward) + embeddings) * bits / 8)


def _store(name: str, node: Mapping[str, Any]) -> None:
    ConfigStore.instance().store(group="model", name=name, node=dict(node), package=f"model.{name}")
    described_models()[name] = node


def _is_real(words: Sequence[str]) -> bool:
    """Return True if a model is named that is neither the included one nor the scripted engine."""
    for name in _names(words, ("model=",)):
        model = load_model_config(name) if name in known_models() else ModelConfig()
        if model.engine != "scripted" and not model.path.startswith("package:"):
            return True
    return False


AUTO, AFTER = "control_benchmark=auto", "fresh_after="
RELEASED = "released"  # fresh_after=released means the release date of the tested model.


def with_twin(words: Sequence[str]) -> list[str]:
    """Return the arguments with a control benchmark in place of its short form.

    Raises ConfigError if the benchmark has no held-out twin, or no dates.

    >>> with_twin(["benchmark=gsm8k", "control_benchmark=auto"])
    ['benchmark=gsm8k', 'control_benchmark=gsm1k']
    """
    after = [word for word in words if word.startswith(AFTER)]
    others = [word for word in words if word not in after]
    if after:
        return _split(others, after[-1].removeprefix(AFTER))
    if AUTO not in words:
        return others
    name = _value(words, "benchmark") or "elementary"
    twins = {}
    for benchmark in options_of("benchmark"):
        twin = load_group("benchmark", benchmark).get("twin")
        if twin:
            twins[benchmark] = twin
    if name in twins:
        return [f"control_benchmark={twins[name]}" if word == AUTO else word for word in others]
    known = ", ".join(f"{benchmark} (twin {twin})" for benchmark, twin in sorted(twins.items()))
    raise ConfigError(
        f"benchmark={name} has no held-out twin. Expected one of {known}. If the items have dates: "
        "fresh_after=2024-06. For a file of held-out items: control_benchmark=mcq_file "
        "control_benchmark.path=new.jsonl"
    )


def _split(words: Sequence[str], date: str) -> list[str]:
    """Return the arguments that split a benchmark at a date.

    The items up to the date become the benchmark, and the later items the control benchmark.
    """
    if any(word.startswith(("control_benchmark", "control_data")) for word in words):
        raise ConfigError(
            f"{AFTER}{date} defines the control benchmark. Expected no control_benchmark=."
        )
    name = _value(words, "benchmark")
    if name is None:
        raise ConfigError(
            f"{AFTER}{date} needs a benchmark whose items have dates. Example: benchmark=mcq_file"
        )
    if date == RELEASED:
        date = _released(words)
    first = following(date)
    control = []
    for word in words:
        key = word.partition("=")[0]
        if key.partition(".")[0] == "benchmark" and key != "benchmark.name":
            control.append(f"control_{word}")
    benchmark_name = _value(words, "benchmark.name") or name
    return [
        *words,
        f"benchmark.dated_until={date}",
        *control,
        f"control_benchmark.dated_after={date}",
        f"control_benchmark.date={first}..",
        f"control_benchmark.name={benchmark_name}_from_{first}",
    ]


def _released(words: Sequence[str]) -> str:
    name = _value(words, "model") or "smollm2_135m"
    released = load_model_config(name).released
    if not released:
        raise ConfigError(
            f"conf/model/{name}.yaml has no release date. Expected a date. Example: {AFTER}2024-06"
        )
    return released


def _value(words: Sequence[str], key: str) -> str | None:
    """Return the last value of a key among the arguments; None if no argument sets the key."""
    for word in reversed(words):
        name, _, value = word.partition("=")
        if name == key:
            return value
    return None
