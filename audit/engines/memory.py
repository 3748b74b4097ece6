"""Estimate the memory that an engine needs for its weights and for the keys and values (KV cache)
of one sequence.

Every estimate is a lower bound, since activations, CUDA graphs and the caches of hybrid layers need
additional memory. A model whose lower bound exceeds the memory cannot be loaded. If a config.json
lacks a number, the estimate is unknown (None). An unknown estimate is never a reason to refuse a
model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.engines.config import ModelConfig

_BYTES = {  # bytes of one number, for each data type
    **dict.fromkeys(("float32", "float"), 4.0),
    **dict.fromkeys(("bfloat16", "float16", "half"), 2.0),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8", "fp8_e4m3", "fp8_e5m2", "int8"), 1.0),
}
_HYBRID = ("mamba", "ssm", "hybrid", "attn_layer", "layers_block_type", "recurrent", "block_types")
_ONLINE = ("quantization", "quantization_config", "load_format", "cpu_offload_gb", "hf_overrides")
_LARGEST = 2**40  # a larger number in a config.json is taken for an error


@dataclass(frozen=True)
class ModelFiles:
    """Hold a model's parsed config.json and the size in bytes of its weight files. An unknown value
    is None.
    """

    config: Mapping[str, Any] | None = None
    stored: int | None = None


@dataclass(frozen=True)
class Need:
    """Hold the memory that one engine needs, in bytes. An unknown value is None.

    Parameters
    ----------
    weights : int or None
        The size of the weights, summed over all GPUs of the engine.
    sequence : int or None
        The size of the KV cache of one sequence of the maximum length, summed over all GPUs of the
        engine.
    each_gpu : int or None
        The size of the weights plus the KV cache on each single GPU.
    tokens : int or None
        The maximum number of tokens of a sequence.
    """

    weights: int | None = None
    sequence: int | None = None
    each_gpu: int | None = None
    tokens: int | None = None


def engine_need(model: ModelConfig, files: ModelFiles) -> Need:
    """Estimate the memory that one engine of a model needs on GPUs.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    files : ModelFiles
        What is known about the model's files.

    Returns
    -------
    Need
        Lower bounds of the needed memory, in bytes.
    """
    text = _text(files.config)
    stages, shards = model.pipeline_parallel_size, model.tensor_parallel_size
    weights = loaded_bytes(model, files)
    tokens = sequence_tokens(model, text)
    layer = token_bytes(text, _cache_bytes(model, text))
    layers = attention_layers(text)
    sequence = each_gpu = None
    if layer is not None and layers is not None and tokens is not None:
        cached = min(tokens, _window(text) or tokens)
        sequence = int(layers * layer.all_heads * cached)
        each_gpu = int(-(-layers // stages) * layer.on_one_of(shards) * cached)
    if weights is not None:
        each_gpu = int(weights / (stages * shards)) + (each_gpu or 0)
    return Need(weights, sequence, each_gpu if weights is not None else None, tokens)


def loaded_bytes(model: ModelConfig, files: ModelFiles) -> int | None:
    """Return the size in bytes that the weights have in memory, in the precision of the
    computation.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    files : ModelFiles
        What is known about the model's files.

    Returns
    -------
    int or None
        The size. It is None if the file sizes or the stored precision are unknown. It is also None
        if `engine_args` quantize or offload the weights during loading.

    Notes
    -----
    A quantized checkpoint keeps its stored size in memory. vLLM's dtype=auto loads each number of a
    float32 file in two bytes.
    """
    config = files.config or {}
    if files.stored is None or any(key in model.engine_args for key in _ONLINE):
        return None
    if config.get("quantization_config"):
        return files.stored
    stored_in = _BYTES.get(_stored_dtype(config).removeprefix("torch."))
    if stored_in is None:
        return None
    computed_in = min(stored_in, 2.0) if model.dtype == "auto" else _BYTES.get(model.dtype)
    return None if computed_in is None else int(files.stored / stored_in * computed_in)


def _stored_dtype(config: Mapping[str, Any]) -> str:
    """Return the dtype that a config.json names; "" if it names no dtype."""
    for part in (config, _text(config)):
        for key in ("dtype", "torch_dtype"):
            if part.get(key):
                return str(part[key])
    return ""


def sequence_tokens(model: ModelConfig, text: Mapping[str, Any]) -> int | None:
    """Return the length of the longest sequence that an engine accepts.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    text : mapping
        The language model's part of config.json.

    Returns
    -------
    int or None
        The number of tokens; None if unknown.
    """
    if model.max_model_len is not None:
        return model.max_model_len
    try:
        return _count(text, "max_position_embeddings")
    except (KeyError, TypeError):
        return None


@dataclass(frozen=True)
class TokenBytes:
    """Hold the size of one token's keys and values in one layer, in bytes.

    `heads` is the number of KV heads, which are divided among tensor-parallel GPUs. For multi-head
    latent attention, `heads` is 1, since every GPU holds the whole latent vector.
    """

    heads: int
    each_head: float

    @property
    def all_heads(self) -> float:
        """Return the bytes of one token's keys and values in one layer, summed over all heads."""
        return self.heads * self.each_head

    def on_one_of(self, gpus: int) -> float:
        """Return the bytes on one of `gpus` tensor-parallel GPUs, each of which has at least one
        head.

        >>> [TokenBytes(8, 512.0).on_one_of(gpus) for gpus in (1, 4, 16)]
        [4096.0, 1024.0, 512.0]
        """
        return -(-self.heads // gpus) * self.each_head


def token_bytes(text: Mapping[str, Any], number_bytes: float) -> TokenBytes | None:
    """Return the size of the KV cache of one token in one layer.

    Parameters
    ----------
    text : mapping
        The language model's part of config.json.
    number_bytes : float
        Bytes of one number in the cache.

    Returns
    -------
    TokenBytes or None
        The bytes of the keys and values of each KV head (grouped-query attention), or the bytes of
        the latent vector (multi-head latent attention, as in DeepSeek). None if the config.json
        does not state these sizes.
    """
    try:
        if text.get("kv_lora_rank"):
            return TokenBytes(
                1, (_count(text, "kv_lora_rank") + _count(text, "qk_rope_head_dim")) * number_bytes
            )
        heads = _count(text, "num_attention_heads")
        if text.get("multi_query"):
            kv_heads = 1
        elif text.get("num_key_value_heads") is not None:
            kv_heads = _count(text, "num_key_value_heads")
        else:
            kv_heads = heads
        width = (
            _count(text, "head_dim")
            if text.get("head_dim")
            else _count(text, "hidden_size") // heads
        )
    except (KeyError, TypeError):
        return None
    return TokenBytes(kv_heads, 2 * width * number_bytes)


def attention_layers(text: Mapping[str, Any]) -> int | None:
    """Return the number of layers that cache every token.

    Parameters
    ----------
    text : mapping
        The language model's part of config.json.

    Returns
    -------
    int or None
        The number of layers. In a hybrid model, only layers with full attention are counted. None
        if unknown.
    """
    try:
        layers = _count(text, "num_hidden_layers")
        kinds = text.get("layer_types")
        if isinstance(kinds, list):
            return sum(kind == "full_attention" for kind in kinds)
        if text.get("full_attention_interval"):
            return layers // _count(text, "full_attention_interval")
    except (KeyError, TypeError):
        return None
    return None if any(part in str(key) for key in text for part in _HYBRID) else layers


def _window(text: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that sliding-window attention caches; None unless every layer has
    sliding-window attention.
    """
    if isinstance(text.get("layer_types"), list) or text.get("use_sliding_window") is False:
        return None
    window = text.get("sliding_window")
    return (
        window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    )


def _cache_bytes(model: ModelConfig, text: Mapping[str, Any]) -> float:
    """Return the number of bytes that one number in the KV cache takes.

    The format of the cache is vLLM's `kv_cache_dtype`, or else the model's dtype.
    """
    named = str(model.engine_args.get("kv_cache_dtype", "auto"))
    if named == "auto":
        return 4.0 if model.dtype in ("float32", "float") else 2.0
    return _BYTES.get(named, 0.5)  # a number in any other format takes at least half a byte


def _text(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the part of a config.json that describes the language model."""
    inner = (config or {}).get("text_config")
    return inner if isinstance(inner, Mapping) else config or {}


def _count(text: Mapping[str, Any], key: str) -> int:
    value = text[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _LARGEST:
        raise TypeError(key)
    return value


def gigabytes(number: float) -> str:
    """Format bytes in decimal gigabytes, as vendors state the memory of a GPU.

    >>> gigabytes(141_107_412_992), gigabytes(268e6)
    ('141 GB', '0.27 GB')
    """
    return f"{number / 1e9:,.0f} GB" if number >= 1e10 else f"{number / 1e9:.2g} GB"
