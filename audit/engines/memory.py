"""The memory that an engine needs: its weights, and the keys and values of one sequence. Arithmetic alone.

Every figure is a lower bound: activations, CUDA graphs and the caches of hybrid layers come on top. What it refuses
cannot load. What a config.json does not say stays unknown (None) and refuses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.engines.config import ModelConfig

_BYTES = {  # of one number
    **dict.fromkeys(("float32", "float"), 4.0),
    **dict.fromkeys(("bfloat16", "float16", "half"), 2.0),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8", "fp8_e4m3", "fp8_e5m2", "int8"), 1.0),
}
_HYBRID = ("mamba", "ssm", "hybrid", "attn_layer", "layers_block_type", "recurrent", "block_types")
_ONLINE = ("quantization", "quantization_config", "load_format", "cpu_offload_gb", "hf_overrides")
_LARGEST = 2**40  # of a count in a config.json


@dataclass(frozen=True)
class ModelFiles:
    """Metadata of a model's files. config: of its config.json. stored: bytes of its weight files. None: not known."""

    config: Mapping[str, Any] | None = None
    stored: int | None = None


@dataclass(frozen=True)
class Need:
    """Bytes that one engine needs. weights: in all of its GPUs. sequence: the KV cache of one sequence of the longest
    length, in all of its GPUs. each_gpu: the part of one GPU. tokens: of that sequence. None: not known."""

    weights: int | None = None
    sequence: int | None = None
    each_gpu: int | None = None
    tokens: int | None = None


def engine_need(model: ModelConfig, files: ModelFiles) -> Need:
    """Return the memory that one engine of a model needs on GPUs."""
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
    """Return the bytes of the weights once they are loaded, in the precision that they are computed in.

    A quantized checkpoint is loaded as it is stored. vLLM's dtype=auto loads float32 files in two bytes. None if the
    sizes or the stored precision are not known, or if `engine_args` quantize or offload the weights while they load.
    """
    config = files.config or {}
    if files.stored is None or any(key in model.engine_args for key in _ONLINE):
        return None
    if config.get("quantization_config"):
        return files.stored
    places = (config, _text(config))
    name = str(next((one[key] for one in places for key in ("dtype", "torch_dtype") if one.get(key)), ""))
    stored_in = _BYTES.get(name.removeprefix("torch."))
    if stored_in is None:
        return None
    computed_in = min(stored_in, 2.0) if model.dtype == "auto" else _BYTES.get(model.dtype)
    return None if computed_in is None else int(files.stored / stored_in * computed_in)


def sequence_tokens(model: ModelConfig, text: Mapping[str, Any]) -> int | None:
    """Return the longest sequence that an engine holds, in tokens."""
    if model.max_model_len is not None:
        return model.max_model_len
    try:
        return _count(text, "max_position_embeddings")
    except (KeyError, TypeError):
        return None


@dataclass(frozen=True)
class TokenBytes:
    """Bytes of one token's keys and values in one layer. heads: that are shared out over tensor-parallel GPUs; 1 of a
    latent cache, which every GPU holds whole."""

    heads: int
    each_head: float

    @property
    def all_heads(self) -> float:
        return self.heads * self.each_head

    def on_one_of(self, gpus: int) -> float:
        """Return the bytes on one of so many tensor-parallel GPUs, which hold one head at least.

        >>> [TokenBytes(8, 512.0).on_one_of(gpus) for gpus in (1, 4, 16)]
        [4096.0, 1024.0, 512.0]
        """
        return -(-self.heads // gpus) * self.each_head


def token_bytes(text: Mapping[str, Any], number_bytes: float) -> TokenBytes | None:
    """Return the KV cache of one token in one layer: keys and values of each KV head (grouped-query attention), or the
    latent vector of multi-head latent attention (DeepSeek). None if the config.json does not say."""
    try:
        if text.get("kv_lora_rank"):
            return TokenBytes(1, (_count(text, "kv_lora_rank") + _count(text, "qk_rope_head_dim")) * number_bytes)
        heads = _count(text, "num_attention_heads")
        if text.get("multi_query"):
            kept = 1
        else:
            kept = _count(text, "num_key_value_heads") if text.get("num_key_value_heads") is not None else heads
        width = _count(text, "head_dim") if text.get("head_dim") else _count(text, "hidden_size") // heads
    except (KeyError, TypeError):
        return None
    return TokenBytes(kept, 2 * width * number_bytes)


def attention_layers(text: Mapping[str, Any]) -> int | None:
    """Return the layers that keep every token: in a hybrid model those of full attention alone. None if unknown."""
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
    """Return the tokens that sliding attention keeps in every layer, if all layers have it."""
    if isinstance(text.get("layer_types"), list) or text.get("use_sliding_window") is False:
        return None
    window = text.get("sliding_window")
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None


def _cache_bytes(model: ModelConfig, text: Mapping[str, Any]) -> float:
    """Return the bytes of one number in the KV cache: as the model is computed, or as `kv_cache_dtype` says."""
    named = str(model.engine_args.get("kv_cache_dtype", "auto"))
    if named == "auto":
        return 4.0 if model.dtype in ("float32", "float") else 2.0
    return _BYTES.get(named, 0.5)  # a format of another name is half a byte at least


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
    """Return bytes in decimal gigabytes, as vendors state the memory of a GPU.

    >>> gigabytes(141_107_412_992), gigabytes(268e6)
    ('141 GB', '0.27 GB')
    """
    return f"{number / 1e9:,.0f} GB" if number >= 1e10 else f"{number / 1e9:.2g} GB"
