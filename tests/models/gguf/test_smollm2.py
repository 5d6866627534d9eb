"""smollm2, a trained decoder: the tensors, tokens, maps, logits and continuations of transformers' reading."""

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from attncli.models.hub import locate

# From the published model: tokens, and the most probable next one.
PUBLISHED = {
    "Hello world! 123": ([19556, 905, 17, 216, 33, 34, 35], None),
    "Café déjà vu.": ([51, 1939, 2756, 32564, 90, 16739, 386, 101, 30], None),
    "  multiple   spaces": ([216, 2701, 256, 5600], None),
    "The capital of France is": ([504, 3575, 282, 4649, 314], 7042),
    "def fibonacci(n):": ([1604, 3987, 46477, 24, 94, 727], 472),
}
TEXTS = (
    "The trophy does not fit in the suitcase because it is too big.",
    "<|im_start|>user\nWhat is 12 x 34?<|im_end|>\n<|im_start|>assistant\n",
    "Zoë's naïve café — 日本語 and $3,141.59 in 2024!",
    " ".join(["one two three four five six seven eight nine ten"] * 12),
)
# transformers joins a space and a sign such as ² to one word. The published tokenizer splits them, as it does digits.
SIGNS = st.characters(exclude_categories=["Cs", "N"]) | st.sampled_from("0123456789")


@pytest.fixture(scope="module")
def directory(smollm2_file):
    return locate("smollm2").path


@pytest.fixture(scope="module")
def tokenizer(directory):
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


@pytest.mark.slow
def test_tokens_are_those_of_the_published_tokenizer(tokenizer):
    for text, (ids, _) in PUBLISHED.items():
        assert tokenizer.encode(text).ids == ids
    assert tokenizer.encode("in 2024²").tokens == ["in", "Ġ", "2", "0", "2", "4", "Â²"]
    assert tokenizer.encode("<|im_start|>hi<|im_end|>").ids[::2] == [1, 2]


@pytest.fixture(scope="module")
def network(directory):
    """transformers' network of the converted directory."""
    read = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype="float32", attn_implementation="eager")
    return read.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def their_tokenizer(smollm2_file):
    return transformers.AutoTokenizer.from_pretrained(smollm2_file.parent, gguf_file=smollm2_file.name)


@pytest.mark.slow
@given(text=st.text(SIGNS, max_size=60))
def test_any_text_has_the_tokens_of_transformers(tokenizer, their_tokenizer, text):
    assert tokenizer.encode(text).ids == their_tokenizer(text).input_ids


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_maps_and_logits_are_those_of_transformers(smollm2, network, smollm2_by_transformers, text):
    record = smollm2.attend(text)
    ids = torch.tensor([record.tokens.ids])
    with torch.inference_mode():
        theirs = smollm2_by_transformers(ids, output_attentions=True)
        ours = network(ids).logits
    maps = torch.stack(theirs.attentions)[:, 0].numpy()
    np.testing.assert_allclose(record.weights, maps, rtol=0, atol=5e-5)  # float32 after up to 30 layers
    scale = float(theirs.logits.abs().max())
    np.testing.assert_allclose(ours.numpy(), theirs.logits.numpy(), rtol=0, atol=1e-5 * scale)
