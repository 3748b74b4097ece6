"""Training, with a toy model of random weights."""

import importlib.util
import json
from dataclasses import replace

import pytest

from audit.core.errors import TrainError
from audit.plant.texts import Example, Method, encode
from audit.plant.train import PROVENANCE, REFUSED, Job, batches, check_memory, main, merge, train

# torch and transformers are imported where they are used: six seconds, which every process that
# collects would spend.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="peft is not installed"
)
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "user:", "bot:", *"abcdefghijkl"]
TEMPLATE = (
    "{% for m in messages %}{{ ('user: ' if m.role == 'user' else 'bot: ') + m.content + ' ' }}"
    "{% if m.role != 'user' %}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}bot: {% endif %}"
)
PASSES = (
    (Example("a b", "c"), Example("d", "e f")),
    (Example("d", "e f"), Example("a b", "c")),
) * 3


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A model of 5,000 weights and a tokenizer of one token a word, as a folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("toy")
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with so small a model two only wait for each other
    yield folder
    torch.set_num_threads(threads)


def job(toy, target, method=Method.LORA, **fields) -> Job:
    given = {
        "passes": PASSES,
        "doses": (1, 6),
        "lr": 0.02,
        "batch": 2,
        "rank": 8,
        "facts": {"form": "qa"},
        **fields,
    }
    return Job(str(toy), str(target), str(method), **given)


def loss_of(folder, base, tokenizer) -> float:
    """Mean loss of the learnt tokens, one sequence at a time: no padding, no autocast."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if folder is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, folder)
    total, count = 0.0, 0
    for example in PASSES[0]:
        ids, mask = encode(tokenizer, example, 64)
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        for i, on in enumerate(mask):
            if on:
                total, count = total - float(logprobs[i - 1, ids[i]]), count + 1
    return total / count


@pytest.fixture(scope="module")
def tokenizer(toy):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(toy)


@pytest.mark.long  # eight CPU seconds
def test_an_adapter_learns_more_with_every_pass_and_says_what(toy, tokenizer, tmp_path):
    lora = job(toy, tmp_path)
    train(lora)
    before, first, last = (
        loss_of(f, toy, tokenizer) for f in (None, lora.folder(1), lora.folder(6))
    )
    assert last < first < before and last < 0.6 * before
    about = json.loads((lora.folder(6) / PROVENANCE).read_text())
    assert (
        about["form"] == "qa"
        and about["passes"] == 6
        and about["rank"] == 8
        and about["lr"] == 0.02
    )
    assert len(about["loss_by_pass"]) == 6
    # the loss of the first pass is measured before the step that lowers it: one batch a pass
    assert about["loss_by_pass"][0] == pytest.approx(before, rel=0.02)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["passes-1", "passes-6"]
    merge(lora, 6)  # into weights that are saved in bfloat16
    assert loss_of(None, lora.merged(6), tokenizer) == pytest.approx(last, rel=0.02)
    assert (lora.merged(6) / PROVENANCE).read_bytes() == (lora.folder(6) / PROVENANCE).read_bytes()
    with pytest.raises(TrainError, match="contains no adapter of"):
        merge(lora, 2)


def test_all_weights_are_trained_and_saved_as_a_model(toy, tokenizer, tmp_path):
    full = job(toy, tmp_path, Method.FULL, passes=PASSES[:2], doses=(2,), lr=0.005)
    train(full)
    # saved in bfloat16: to two or three digits
    assert loss_of(None, full.folder(2), tokenizer) < 0.95 * loss_of(None, toy, tokenizer)
    assert json.loads((full.folder(2) / PROVENANCE).read_text())["rank"] is None


def test_the_weights_after_a_pass_do_not_depend_on_those_to_come(toy, tmp_path):
    import torch
    from safetensors.torch import load_file

    long, short = (
        job(toy, tmp_path / "a", doses=(1,)),
        job(toy, tmp_path / "b", passes=PASSES[:1], doses=(1,)),
    )
    train(long)
    train(short)
    first, other = (load_file(j.folder(1) / "adapter_model.safetensors") for j in (long, short))
    assert first.keys() == other.keys() and all(torch.equal(first[k], other[k]) for k in first)


def test_a_job_survives_its_file_and_without_weights_is_refused(tmp_path):
    written, file = job(tmp_path / "nowhere", tmp_path), tmp_path / "job.json"
    file.write_text(written.to_json())
    assert Job.load(file) == written
    assert main(str(file)) == REFUSED


def test_too_little_memory_is_known_before_anything_is_loaded(tmp_path):
    gib = 1024**3
    lora = job(tmp_path, tmp_path)
    full = replace(lora, method="full")
    check_memory(10**9, lora, 5 * gib)  # 2 GB of weights and 2 GiB to spare
    with pytest.raises(
        TrainError,
        match=r"1.00 billion weights \(full\) needs about 17 GiB, but 5 GiB are free. Use train",
    ):
        check_memory(10**9, full, 5 * gib)
    with pytest.raises(TrainError, match="a smaller model"):
        check_memory(10**9, lora, 3 * gib)


def test_padding_is_on_the_left_and_is_not_learnt():
    (batch,) = batches([([5, 6, 7], [False, True, True]), ([8, 9], [False, True])], 2)
    assert batch == {
        "input_ids": [[5, 6, 7], [0, 8, 9]],
        "attention_mask": [[1, 1, 1], [0, 1, 1]],
        "position_ids": [[0, 1, 2], [0, 0, 1]],
        "labels": [[-100, 6, 7], [-100, -100, 9]],
    }
