"""Configurations, settings of tokenizers, chat templates and headers of .gguf files that say what can't be."""

import json
import struct
from random import Random

from hostile.case import Case
from hostile.documents import put
from hostile.place import Place, words

VALUES = (
    "5", "-1", "0", "1.5", "1e9", "1000000", "2147483647", "1e400", "NaN", '"x"', '""', '"1"', "true", "false", "null",
    "[]", "[5]", '["x"]', "{}", '{"content": 5}', '{"content": "<s>"}', '{"a": [1]}', '"\\u001b[31m"', '"../../x"', "-",
    "...",
)  # fmt: skip
# Entries of config.json that checkpoints have, and some that one of its parts or of its heads may have.
CONFIG = (
    "architectures", "model_type", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size",
    "intermediate_size", "vocab_size", "max_position_embeddings", "head_dim", "hidden_act", "pad_token_id",
    "bos_token_id", "eos_token_id", "id2label", "label2id", "num_labels", "text_config", "encoder", "decoder",
    "is_encoder_decoder", "is_decoder", "layer_types", "sliding_window", "rope_parameters", "rope_scaling",
    "rope_theta", "tie_word_embeddings", "dtype", "torch_dtype", "auto_map", "quantization_config", "problem_type",
    "n_layer", "n_head", "num_layers", "d_model", "transformers_version", "attn_implementation",
    "decoder_start_token_id",
)  # fmt: skip
TOKENIZER = (
    "bos_token", "eos_token", "pad_token", "unk_token", "mask_token", "cls_token", "sep_token", "tokenizer_class",
    "model_max_length", "padding_side", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens",
    "do_lower_case", "strip_accents", "add_prefix_space", "chat_template", "auto_map", "add_bos_token", "backend",
)  # fmt: skip
FILES = {
    "config.json": CONFIG,
    "tokenizer_config.json": TOKENIZER,
    "special_tokens_map.json": TOKENIZER[:7],
    "generation_config.json": ("pad_token_id", "eos_token_id", "bos_token_id", "max_length", "do_sample"),
}
MODEL = (
    "run -m broken --json @", "run -m broken --pad-to 20 --json @", "models show broken --json",
    "run -m broken --engine transformers --json @",
)  # fmt: skip
CHAT = "generate -m broken --chat --max-tokens 2 --json @"
PIECES = (
    "{% for a in range(99999) %}", "{% endfor %}", "{{ lipsum(n=100) }}", "{{ 'x ' * 5000000 }}",
    "{{ 2 ** (2 ** 40) }}",
    "{{ ('x ' * 999999) | wordwrap(1) }}", "{{ 'x' | center(10 ** 11) }}", "{{ range(10 ** 9) | list }}", "{% if", "}}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ ''.__class__.__mro__ }}", "{% include 'a' %}",
    "\x1b[31m",
    "{{ messages | tojson(indent=10 ** 10) }}", "{{ raise_exception('no\n\x1b[31m') }}", "{{ 1 / 0 }}", "\x00", "the ",
    "{{ messages[0].content }}", "{% set ns = namespace(__class__=1) %}", "{{ strftime_now('%Y' * 999999) }}",
    "{{ '%0999999999999d' | format(1) }}", "{% set x = 'x' * 10 ** 9 %}", "{{ bos_token }}", "{{ " + "(" * 9999,
    "{% break %}", "{{ '\\ud800' }}", "\u202e", "{{ undefined.a.b }}", "{{ messages.append(1) }}",
)  # fmt: skip
GGUF = (
    "block_count", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
    "context_length", "attention.key_length", "rope.dimension_count", "vocab_size",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 7, 255, 10**4, 10**6, 2**27, 2**31 - 1, 2**31, 2**32 - 1)


def make(random: Random, place: Place) -> Case:
    way = random.random()
    if way < 0.2:
        return template(random)
    if way < 0.35:
        return header(random, place)
    folder = random.choice([name for name in ("tiny", "json", "chat", "gpt2", "t5") if name in place.names()])
    file = random.choice(("config.json", "config.json", *FILES))
    whole = place.original(f"{folder}/{file}").decode() if file in place.inside(folder) else "{}"
    changes: dict[str, str] = {}
    for _ in range(random.choice((1, 1, 2, 3))):
        known = [one for one in json.loads(whole) if "." not in one]
        name = random.choice((*FILES[file], *known))
        value = random.choice(VALUES)
        if value != "-" or name in known:
            changes[name] = value
    line = CHAT if folder == "chat" and random.random() < 0.3 else random.choice(MODEL)
    made = put(whole, changes).encode()
    return Case(
        "settings", tuple(words(line)), {f"broken/{file}": made}, {"broken": folder}, note=f"{folder} {changes}"
    )


def template(random: Random) -> Case:
    """A chat template of pieces that hang, grow, fail or want out."""
    made = "".join(random.choices(PIECES, k=random.choice((1, 2, 3, 5))))
    name, content = "chat_template.jinja", made
    if random.random() < 0.5:
        stated = random.choice((made, [{"name": "default", "template": made}], [made], {"default": made}))
        name, content = "tokenizer_config.json", json.dumps({"chat_template": stated})
    return Case(
        "settings", tuple(words(CHAT)), {f"broken/{name}": content.encode()}, {"broken": "chat"}, note="template"
    )


def header(random: Random, place: Place) -> Case:
    """A .gguf file with other numbers in its header."""
    content = bytearray(place.original("tiny.gguf"))
    changes = {}
    for name in random.sample(GGUF, random.choice((1, 1, 2))):
        key = f"llama.{name}".encode()
        at = content.find(struct.pack("<Q", len(key)) + key)
        if at >= 0:
            changes[name] = random.choice(NUMBERS)
            struct.pack_into("<I", content, at + 8 + len(key) + 4, changes[name])
    line = random.choice(("run -m bad.gguf --json @", "models show bad.gguf --json", "run -m bad.gguf -l 0 -H 0 @"))
    return Case("settings", tuple(words(line)), {"bad.gguf": bytes(content)}, note=f"gguf {changes}")
