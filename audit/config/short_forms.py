"""Short forms of a command's words -> the words that Hydra composes, and what a person is told of
them.

    model=hf:ORG/NAME[@REVISION]        a configuration is derived; as worker and among references too
    endpoint=URL model_id=NAME          an OpenAI-compatible endpoint under the model's own name
    references=[ID,ID@URL]              beside endpoint=: other models of the same server, or of another
    judge=ID or ID@URL                  the same for the one model that votes
    data=exam.csv                       benchmark=mcq_file with this path, named by the file
    control_data=unseen.csv             the same for control_benchmark
    preset=song2026                     conf/preset/song2026.yaml: another default for several keys
    control_benchmark=auto              the held-out twin that conf/benchmark/NAME.yaml names
    fresh_after=DATE                    a benchmark with dates is split: items after it are held out

A derived configuration becomes an option of Hydra's group model: its keys are changed like any
other's. Hydra composes no reference and no judge, so model.REFERENCE.KEY=VALUE is merged into the
derived configuration here."""

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
# Default benchmark of each audit; docs/understand/decisions.md has the reasons.
PUBLIC = {"sweep": "mmlu", "memory": "mmlu"}
_CONTEXT = 16384  # tokens; the prompts of every audit fit into half of it
# Bytes for weights on a GPU of 80 GB; a fifth of the usable memory is left to the KV cache.
_ROOM = 0.8 * 0.9 * 80e9
# Chat template of a base model.
_PLAIN = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
_HUB_WORD = re.compile(r"hf:[^],\s]*")
_NO_MODEL = ("", "none", "null")


def expand(words: Sequence[str], audit: str) -> tuple[list[str], list[str]]:
    """(words as Hydra takes them, lines for the person). ConfigError for a short form that is not
    whole.

    >>> expand(["data=my exam.csv"], "sweep")[0]
    ['benchmark=mcq_file', 'benchmark.path="my exam.csv"', 'benchmark.name=my_exam']
    """
    given = {key: value for key, found, value in (word.partition("=") for word in words) if found}
    own_models(words)
    notes: list[str] = []
    ours = _changed([one for word in words for one in _expanded(word, given, notes)])
    # The user's own configuration file has its own default.
    own = any(word.startswith(("-c", "--config")) for word in words)
    if audit in PUBLIC and not own and not {"benchmark", "data"} & set(given) and _real(ours):
        name = PUBLIC[audit]
        note = (
            f"benchmark {name} (hub {load_group('benchmark', name)['hub']}), the default of real models. Without a "
            "network: benchmark.path=FOLDER of the authors' files, data=my_exam.csv, or benchmark=elementary"
        )
        return [f"benchmark={name}", *ours], [note, *notes]
    return ours, notes


def _expanded(word: str, given: Mapping[str, str], notes: list[str]) -> list[str]:
    key, _, value = word.partition("=")
    if key == "endpoint":
        return [_endpoint(given, notes)]
    if key in ("model_id", "api_key_env"):
        if "endpoint" not in given:
            raise ConfigError(f"{word} belongs to an endpoint. Expected {_EXAMPLE}.")
        return []
    if key == "data":
        if "benchmark" in given:
            raise ConfigError(
                f"{word} and benchmark={given['benchmark']} name two benchmarks. Expected one of them."
            )
        if not value:
            raise ConfigError("data= names no file. Expected such as data=my_exam.csv.")
        return data_words(value)
    if key == "control_data":
        if "control_benchmark" in given:
            raise ConfigError(
                f"{word} and control_benchmark={given['control_benchmark']} name two held-out sets. "
                "Expected one of them."
            )
        if not value:
            raise ConfigError(
                "control_data is empty. Expected a file, such as control_data=unseen.csv."
            )
        return [f"control_{one}" for one in data_words(value)]
    if key == "references":
        value = _served_references(value, given, notes)
    if key == "judge" and value not in _NO_MODEL:
        return [f"judge={_served(value.strip(), given, notes, what='judge')}"]
    if key in ("model", "worker", "references"):
        return [f"{key}={_HUB_WORD.sub(lambda found: _of_hub(found[0], notes), value)}"]
    return [f"+{word}" if key == "preset" else word]


def _changed(words: Sequence[str]) -> list[str]:
    """Return the words without model.NAME.KEY=VALUE of a derived reference or judge, whose
    configuration takes the values."""
    listed = ",".join(
        word.partition("=")[2] for word in words if word.startswith(("references=", "judge="))
    )
    tested = ",".join(word.partition("=")[2] for word in words if word.startswith("model="))
    names = {*re.findall(r"[^\[\],'\" ]+", listed)} - {*re.findall(r"[^\[\],'\" ]+", tested)}
    fields = [str(field) for field in OmegaConf.structured(ModelConfig)]
    left: list[str] = []
    changes = defaultdict[str, list[str]](list)
    for word in words:
        found = re.match(r"\+{0,2}model\.([^.=]+)\.([^=]+=.*)", word, re.DOTALL)
        if found and found[1] in names & described_models().keys():
            changes[found[1]].append(found[2])
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
    """Forget the models that are described within: they are those of one call of the Python API,
    and a later call that names no such model must not find them."""
    token = _DESCRIBED.set({})
    try:
        yield
    finally:
        group = ConfigStore.instance().repo.get("model", {})
        for name in described_models():
            group.pop(f"{name}.yaml", None)
        _DESCRIBED.reset(token)


def own_models(words: Sequence[str]) -> None:
    """Note the models of the folders that hydra.searchpath names: a suite and references know them
    by it."""
    places = [word.partition("=")[2] for word in words if word.startswith("hydra.searchpath=")]
    for path in (
        file
        for place in places
        for folder in folders_of(place)
        for file in folder.glob("model/*.yaml")
    ):
        # Hydra reports the mistake if the model of this file is requested.
        with suppress(YAMLError):
            loaded = OmegaConf.to_container(OmegaConf.load(path))
            if isinstance(loaded, dict):
                described_models()[path.stem] = {str(key): value for key, value in loaded.items()}


def data_words(path: str) -> list[str]:
    """Of a file of one's own."""
    return [
        "benchmark=mcq_file",
        f"benchmark.path={quoted(path)}",
        f"benchmark.name={safe_name(Path(path).stem)}",
    ]


def quoted(text: str) -> str:
    """As Hydra takes any text."""
    return json.dumps(text, ensure_ascii=False)


def safe_name(text: str) -> str:
    """A name for shards, folders and keys: no dot, which Hydra reads as a key's.

    >>> safe_name("meta-llama/Llama-3.1-8B")
    'meta-llama_Llama-3_1-8B'
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-") or "unnamed"
    return f"{name}_" if name in known_models() else name


def hub_name(model_id: str) -> str:
    """The name of a hub's model: that of its configuration in conf/model, else the id made safe."""
    known = (name for name in known_models() if load_model_config(name).path == model_id)
    return next(known, safe_name(model_id))


_NAME_A_MODEL = ("model", "endpoint", "edits", "score")  # edits=show and score=FILE ask no model


def need_model(words: Sequence[str]) -> None:
    """Raise ConfigError if no word names the model to audit, or is one that asks none or an option
    of Hydra."""
    keys = {word.partition("=")[0] for word in words}
    if keys.isdisjoint(_NAME_A_MODEL) and not any(word.startswith("-") for word in words):
        raise ConfigError(
            "No model is named. Expected one of:\n"
            "  model=NAME                         a configuration in conf/model, such as model=qwen3_8b\n"
            "  model=hf:ORG/NAME                  a model of the hub, such as model=hf:Qwen/Qwen2.5-7B-Instruct\n"
            "  endpoint=URL model_id=ID           a server with an OpenAI-compatible API\n"
            "The model that is included (135 million parameters, a demonstration): model=smollm2_135m"
        )


_EXAMPLE = "endpoint=http://127.0.0.1:8000/v1 model_id=my-model (and api_key_env=VARIABLE if not OPENAI_API_KEY)"


def _endpoint(given: Mapping[str, str], notes: list[str]) -> str:
    if not given.get("model_id") or "model" in given:
        raise ConfigError(
            f"endpoint= needs model_id=NAME, and no model= beside it. Expected {_EXAMPLE}."
        )
    if "://" not in given["endpoint"] and "@" not in given["endpoint"]:
        raise ConfigError(
            f"endpoint= takes a whole address. Write: endpoint=http://{given['endpoint']}"
        )
    name = _serve(given["model_id"], given["endpoint"], given.get("api_key_env"), notes)
    return f"model={name}"


def _served_references(value: str, given: Mapping[str, str], notes: list[str]) -> str:
    """Return the references with each model of an endpoint replaced by the name of its
    configuration.

    ID@URL is a model of the endpoint at URL. Beside endpoint=, a name that is no model, path or set
    here is the ID of a model of the same server."""
    names = [
        name.strip(" '\"") for name in value.strip().removeprefix("[").removesuffix("]").split(",")
    ]
    return f"[{','.join(_served(name, given, notes) for name in names)}]" if any(names) else value


def _served(name: str, given: Mapping[str, str], notes: list[str], what: str = "reference") -> str:
    model_id, at, url = name.partition("@")
    if at and "://" in url:
        # A key is sent to the server that it was typed for alone.
        served = safe_name(model_id)
        same = _origin(url) == _origin(given.get("endpoint", ""))
        key_env = (
            given.get("api_key_env") if same else f"{served.upper().replace('-', '_')}_API_KEY"
        )
    elif not name or "endpoint" not in given or _is_known(name):
        return name
    else:
        model_id, url, key_env = name, given["endpoint"], given.get("api_key_env")
    if not model_id:
        raise ConfigError(
            f"{what.capitalize()} is {name!r}. Expected MODEL_ID@URL. Example: gpt-4o@{url}"
        )
    tested = safe_name(given.get("model_id", ""))
    if safe_name(model_id) == tested and url != given.get("endpoint"):
        raise ConfigError(
            f"{what.capitalize()} {model_id} at {safe_url(url)} has the name of the model at "
            f"{safe_url(given['endpoint'])}. Expected models of different names: give one of them a configuration of "
            "its own in FOLDER/model/NAME.yaml. Example: 'hydra.searchpath=[FOLDER]'"
        )
    return _serve(model_id, url, key_env, notes, what=what)


def _is_known(reference: str) -> bool:
    """Return whether a reference is a configuration, a set, a model of the hub, or a path that is
    here."""
    if reference in (*known_models(), *described_models()) or reference.startswith((HF, "set:")):
        return True
    return any(Path(path).exists() for path in (reference, reference.partition("@")[2]) if path)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _serve(
    model_id: str, url: str, key_env: str | None, notes: list[str], what: str = "model"
) -> str:
    """Store the configuration of one model of an endpoint; return its name."""
    node, name = load_group("model", _ENDPOINT), safe_name(model_id)
    endpoint = {"url": url, "model": model_id} | ({"api_key_env": key_env} if key_env else {})
    _store(name, node | {"name": name, "endpoints": [node["endpoints"][0] | endpoint]})
    notes.append(f"{what} {name}: {model_id} at {safe_url(url)}; change it by model.{name}.KEY=")
    return name


def _of_hub(word: str, notes: list[str]) -> str:
    """The name of the option for hf:ORG/NAME[@REVISION]."""
    path, _, revision = word.removeprefix(HF).strip("'\"").partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        raise ConfigError(
            f"{word} names no model of the hub. Expected hf:ORG/NAME, such as model=hf:Qwen/Qwen3-8B."
        )
    name = hub_name(path)
    if name in known_models() and not revision:
        notes.append(f"model {name}: conf/model/{name}.yaml is the configuration of {path}")
        return name
    asked = path, revision or None
    config = _hub_json(*asked, "config.json")
    tokenizer = None if config is None else _hub_json(*asked, "tokenizer_config.json")
    # The tokenizer has a chat template, or this is unknown.
    chats = tokenizer is None or bool(tokenizer.get("chat_template"))
    node = derived(*asked, config, chats or hub_text(*asked, "chat_template.jinja") is not None)
    name = safe_name(f"{path}@{revision}") if revision else name
    _store(name, {"name": name, **node})
    by = "" if config else ", as its config.json could not be read: a chat model on one GPU"
    notes.append(
        f"model {path} is run as this{by}. To change it type model.{name}.KEY=; a run keeps it as model/{name}.yaml in "
        f"its directory:\n{as_file(name, described_models()[name]).rstrip()}"
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
    """A model's configuration from its config.json; None where it is not known. Of a base model,
    which has no chat template, the options' likelihoods are read. GPUs: for weights on 80 GB
    each."""
    text = (config or {}).get("text_config") or config or {}
    gpus, size = 1, weight_bytes(text, (config or {}).get("quantization_config"))
    while size and size > gpus * _ROOM:
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
    """Of a decoder's config.json: attention, gated feed-forward (every expert) and embeddings, two
    bytes a parameter, fewer where it is quantized; None where it does not say."""
    try:
        width, heads, layers = (
            config[k] for k in ("hidden_size", "num_attention_heads", "num_hidden_layers")
        )
        attention = 2 * width * (config.get("head_dim") or width // heads)
        attention *= heads + (config.get("num_key_value_heads") or heads)
        several = ("num_experts", "num_local_experts", "n_routed_experts")
        experts = next((config[k] for k in several if config.get(k)), 1)
        forward = (
            3
            * width
            * experts
            * (config.get("moe_intermediate_size") or config["intermediate_size"])
        )
        words = config["vocab_size"] * width * (1 if config.get("tie_word_embeddings") else 2)
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    bits = 16 if not quantization else quantization.get("bits") or 8
    return float((layers * (attention + forward) + words) * bits / 8)


def _store(name: str, node: Mapping[str, Any]) -> None:
    ConfigStore.instance().store(group="model", name=name, node=dict(node), package=f"model.{name}")
    described_models()[name] = node


def _real(words: Sequence[str]) -> bool:
    """Whether a model is asked for that is neither embedded nor scripted."""
    asked = re.findall(
        r"[^\[\],'\" ]+", ",".join(word[6:] for word in words if word.startswith("model="))
    )
    models = [
        load_model_config(name) if name in known_models() else ModelConfig() for name in asked
    ]
    return any(
        model.engine != "scripted" and not model.path.startswith("package:") for model in models
    )


AUTO, AFTER = "control_benchmark=auto", "fresh_after="
RELEASED = "released"  # fresh_after=released means the release date of the tested model.


def with_twin(words: Sequence[str]) -> list[str]:
    """The words with a control benchmark in place of the short word. ConfigError where there is
    none to be had.

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
    twins = {one: load_group("benchmark", one).get("twin") for one in options_of("benchmark")}
    if found := twins.get(name):
        return [f"control_benchmark={found}" if word == AUTO else word for word in others]
    known = ", ".join(f"{one} (its twin is {twin})" for one, twin in sorted(twins.items()) if twin)
    raise ConfigError(
        f"benchmark={name} has no held-out twin. Known: {known}. With dates, write fresh_after=2024-06; "
        "otherwise name your own held-out items, such as control_benchmark=mcq_file control_benchmark.path=new.jsonl."
    )


def _split(words: Sequence[str], date: str) -> list[str]:
    """The benchmark up to a date, and the same files after it as the control."""
    if any(word.startswith(("control_benchmark", "control_data")) for word in words):
        raise ConfigError(
            f"{AFTER}{date} makes the control benchmark. Leave out control_benchmark=..."
        )
    name = _value(words, "benchmark")
    if name is None:
        raise ConfigError(
            f"{AFTER}{date} needs a benchmark whose items have dates, such as benchmark=mcq_file."
        )
    if date == RELEASED:
        date = _released(words)
    first = following(date)
    ours = [word for word in words if word.partition("=")[0].partition(".")[0] == "benchmark"]
    called = _value(words, "benchmark.name") or name
    control = [f"control_{word}" for word in ours if not word.startswith("benchmark.name=")]
    control += [f"control_benchmark.dated_after={date}", f"control_benchmark.date={first}.."]
    return [
        *words,
        f"benchmark.dated_until={date}",
        *control,
        f"control_benchmark.name={called}_from_{first}",
    ]


def _released(words: Sequence[str]) -> str:
    name = _value(words, "model") or "smollm2_135m"
    released = load_model_config(name).released
    if not released:
        raise ConfigError(
            f"conf/model/{name}.yaml does not say when it was released. Write the date: {AFTER}2024-06."
        )
    return released


def _value(words: Sequence[str], key: str) -> str | None:
    return next(
        (word.partition("=")[2] for word in reversed(words) if word.partition("=")[0] == key), None
    )
