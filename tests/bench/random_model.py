"""`python -m bench.random_model SHAPE_OF FOLDER > conf/model/random_8b.yaml`: an 8B model that
needs no network.

FOLDER gets the tokenizer of SHAPE_OF (a Llama's folder, such as the embedded model's in the cache)
and the sizes of Llama 3 8B; vLLM fills it with random weights. It answers nonsense, as fast as a
real model of its size answers."""

import json
import shutil
import sys
from pathlib import Path

SIZES = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
CONFIGURATION = """# @package model.random_8b
name: random_8b
path: {folder}
reading: option_text
protocol: song2026_cloze
dtype: bfloat16
max_model_len: 8192
max_num_seqs: 256
preparing: {{max_tokens: 128, temperature: 0.3, top_p: 0.95}}
engine_args: {{load_format: dummy, enforce_eager: true}}
"""


def write(shape_of: Path, folder: Path) -> str:
    """The folder that vLLM loads; returns the model's configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (
        "chat_template.jinja",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        shutil.copy(shape_of / name, folder)
    sizes = json.loads((shape_of / "config.json").read_text()) | SIZES
    (folder / "config.json").write_text(json.dumps(sizes))
    return CONFIGURATION.format(folder=folder.resolve())


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), Path(sys.argv[2])), end="")
