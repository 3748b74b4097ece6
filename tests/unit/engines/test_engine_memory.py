"""What an engine needs, by hand from published configurations; what a config.json does not say
stays unknown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.engines.config import ModelConfig
from audit.engines.memory import (
    ModelFiles,
    Need,
    attention_layers,
    engine_need,
    loaded_bytes,
    token_bytes,
)

LLAMA_70B = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131_072,
}
STORED = 141_107_412_992  # bytes, as its index states
QWEN_80B = {  # every fourth of its layers is full attention
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "hidden_size": 2048,
    "full_attention_interval": 4,
    "dtype": "bfloat16",
}
DEEPSEEK = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8"},
    "torch_dtype": "bfloat16",
}
MODEL = ModelConfig(name="m", path="p", max_model_len=16_384)


def test_a_dense_model_of_grouped_queries() -> None:
    """A token: 80 layers x 8 KV heads x 128 numbers x 2 (keys, values) x 2 bytes = 327,680
    bytes."""
    need = engine_need(replace(MODEL, tensor_parallel_size=4), ModelFiles(LLAMA_70B, STORED))
    sequence = 327_680 * 16_384
    assert need == Need(STORED, sequence, STORED // 4 + sequence // 4, 16_384)


def test_heads_are_shared_out_but_never_split() -> None:
    """16 GPUs for 8 KV heads: each holds one whole, an eighth of the cache. Two stages of 40
    layers: a half of it."""
    wide = engine_need(replace(MODEL, tensor_parallel_size=16), ModelFiles(LLAMA_70B, STORED))
    assert wide.each_gpu == STORED // 16 + 327_680 * 16_384 // 8
    deep = engine_need(
        replace(MODEL, tensor_parallel_size=2, pipeline_parallel_size=2),
        ModelFiles(LLAMA_70B, STORED),
    )
    assert deep.each_gpu == STORED // 4 + 327_680 * 16_384 // 2 // 2


def test_a_latent_cache_is_whole_on_every_gpu() -> None:
    """61 layers x 576 numbers x 2 bytes = 70,272 bytes a token; its weights are loaded as they are
    stored, in FP8."""
    need = engine_need(
        replace(MODEL, tensor_parallel_size=8), ModelFiles(DEEPSEEK, 688_586_727_753)
    )
    assert need.sequence == 70_272 * 16_384
    assert need.each_gpu == 688_586_727_753 // 8 + 70_272 * 16_384


def test_layers_that_keep_a_state_or_a_window_are_not_counted() -> None:
    assert attention_layers(QWEN_80B) == 12
    assert (
        attention_layers(
            {"num_hidden_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 2}
        )
        == 2
    )
    assert attention_layers({"num_hidden_layers": 4, "mamba_d_state": 16}) is None
    mistral = {**LLAMA_70B, "sliding_window": 4096}
    assert engine_need(MODEL, ModelFiles(mistral, STORED)).sequence == 327_680 * 4096
    unused = {**mistral, "use_sliding_window": False}
    assert engine_need(MODEL, ModelFiles(unused, STORED)).sequence == 327_680 * 16_384


def test_the_text_part_of_a_model_of_pictures_counts() -> None:
    several = {"text_config": LLAMA_70B, "vision_config": {"num_hidden_layers": 999}}
    assert engine_need(MODEL, ModelFiles(several, STORED)) == engine_need(
        MODEL, ModelFiles(LLAMA_70B, STORED)
    )


@pytest.mark.parametrize(
    ("stored_in", "dtype", "loaded"),
    [
        ("bfloat16", "auto", 100),
        ("bfloat16", "float32", 200),
        ("float32", "auto", 50),
        ("float32", "float32", 100),
        ("float16", "bfloat16", 100),
        ("torch.bfloat16", "auto", 100),
        ("float8_e4m3fn", "auto", 100),
        ("", "auto", None),
        ("bfloat16", "int4", None),
    ],
)
def test_weights_are_loaded_in_the_precision_that_is_computed_in(
    stored_in: str, dtype: str, loaded: int | None
):
    files = ModelFiles({"torch_dtype": stored_in} if stored_in else {}, 100)
    assert loaded_bytes(replace(MODEL, dtype=dtype), files) == loaded


def test_what_is_quantized_while_it_loads_is_not_known() -> None:
    for key in ("quantization", "load_format", "cpu_offload_gb"):
        assert (
            loaded_bytes(replace(MODEL, engine_args={key: "x"}), ModelFiles(LLAMA_70B, STORED))
            is None
        )
    eighth = replace(MODEL, engine_args={"kv_cache_dtype": "fp8"})
    assert engine_need(eighth, ModelFiles(LLAMA_70B, STORED)).sequence == 327_680 // 2 * 16_384


def test_one_head_of_keys_for_all_queries() -> None:
    need = token_bytes({"num_attention_heads": 71, "hidden_size": 4544, "multi_query": True}, 2.0)
    assert need is not None and need.all_heads == 2 * 64 * 2


def test_what_is_not_said_is_not_invented() -> None:
    assert engine_need(MODEL, ModelFiles()) == Need(None, None, None, 16_384)
    assert engine_need(replace(MODEL, max_model_len=None), ModelFiles()) == Need()
    without = {key: value for key, value in LLAMA_70B.items() if key != "num_hidden_layers"}
    need = engine_need(MODEL, ModelFiles(without, STORED))
    assert (need.weights, need.sequence, need.each_gpu) == (STORED, None, STORED)


_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.lists(st.integers())
)
_CONFIGS = st.dictionaries(
    st.sampled_from([*LLAMA_70B, *DEEPSEEK, *QWEN_80B, "layer_types", "sliding_window"]), _VALUES
)


@given(config=_CONFIGS | st.fixed_dictionaries({"text_config": _VALUES | _CONFIGS}))
def test_whatever_a_config_holds_is_a_number_or_unknown(config: dict[str, Any]) -> None:
    need = engine_need(replace(MODEL, max_model_len=None), ModelFiles(config, STORED))
    assert all(
        value is None or value >= 0 for value in (need.weights, need.sequence, need.each_gpu)
    )
