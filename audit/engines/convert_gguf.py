"""Convert a GGUF file to a folder that vLLM loads (bfloat16).

Usage: `python -m audit.engines.convert_gguf SOURCE.gguf FOLDER`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from audit.engines.weights import SEAL, WEIGHT_FILES, folder_sha256


def convert(source: Path, target: Path) -> None:
    """Convert the GGUF file to the folder `target`.

    The files are written into another folder, which is then renamed to `target`. A half-written
    folder is therefore never loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, quantization_config=GgufConfig(dequantize=True)
        )
        model.to(torch.bfloat16).save_pretrained(work)
        tokenizer.save_pretrained(work)
        (work / SEAL).write_text(folder_sha256(work, WEIGHT_FILES))
        if not target.exists():  # another process may have written the folder meanwhile
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
