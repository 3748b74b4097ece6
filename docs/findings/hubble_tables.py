"""Write both halves of allegrolab/testset_mmlu as benchmark files, in this folder."""

import json
from pathlib import Path

from datasets import load_dataset


def main() -> None:
    """Write hubble_mmlu_train.jsonl and hubble_mmlu_test.jsonl."""
    for split in ("train", "test"):
        with Path(f"hubble_mmlu_{split}.jsonl").open("w", encoding="utf-8") as file:
            for row in load_dataset("allegrolab/testset_mmlu", split=split):
                item = json.loads(row["meta"])
                kept = {key: item[key] for key in ("question", "choices", "answer")}
                print(json.dumps(kept | {"duplicates": row["duplicates"]}), file=file)


if __name__ == "__main__":
    main()
