"""A converted file's tokenizer gives the tokens of the tokenizer that the file was made from."""

import gguf
import pytest
import sentencepiece
import tokenizers
import transformers
from gguf_files import MERGES, NETWORKS, SPECIAL, TEXTS, add_byte_pairs, byte_tokens, finish, write_file
from hypothesis import given
from hypothesis import strategies as st

from attncli import RequestError
from attncli.models.gguf.conversion import convert
from attncli.models.gguf.file import GGUFFile
from attncli.models.gguf.vocabulary import SPLITTINGS, Vocabulary
from attncli.text.tokenizer import Tokenizer

TEXT = st.text(
    st.sampled_from("the ca't\n\r\t 0123é日Ⅷ½²_<|>'S") | st.characters(exclude_categories=["Cs"]), max_size=30
)
RULES = ("gpt-2", "mpt", "smollm", "qwen2", "llama-bpe")
RULE = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def vocabulary(folder, fill, architecture="llama"):
    """The vocabulary of a file without tensors."""
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    fill(writer)
    finish(writer)
    return Vocabulary(GGUFFile(folder / "model.gguf"))


def saved(folder, fill, architecture="llama"):
    vocabulary(folder, fill, architecture).save(folder / "tokenizer.json")
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def by_hand(rule):
    """The published tokenizers' parts, with the tests' vocabulary."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    numbers = {token: number for number, token in enumerate(byte_tokens())}
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    made = Tokenizer(models.BPE(vocab=numbers, merges=merges, ignore_merges=rule == "llama-bpe"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule in ("gpt-2", "mpt", "smollm"))
    before = {
        "gpt-2": [],
        "mpt": [],
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "qwen2": [pre_tokenizers.Split(Regex(f"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{RULE % 1}"), "isolated")],
        "llama-bpe": [pre_tokenizers.Split(Regex(f"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{RULE % '1,3'}"), "isolated")],
    }
    made.decoder = decoders.ByteLevel()
    made.pre_tokenizer = pre_tokenizers.Sequence([*before[rule], level])
    if rule in ("qwen2", "mpt"):
        made.normalizer = normalizers.NFC()
    made.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in SPECIAL])
    made.add_tokens([tokenizers.AddedToken("<think>", normalized=False)])
    return made


@pytest.fixture(scope="module", params=RULES)
def both(request, tmp_path_factory):
    """A rule of splitting, the tokenizer of a file with it, and the published one."""
    rule = request.param
    return rule, saved(tmp_path_factory.mktemp(rule), lambda writer: add_byte_pairs(writer, rule)), by_hand(rule)


@given(text=TEXT)
def test_tokens_are_those_of_the_published_tokenizer(both, text):
    rule, ours, theirs = both
    begun = [1] if rule == "llama-bpe" else []
    assert ours.encode(text).ids == begun + theirs.encode(text).ids
    assert ours.decode(ours.encode(text, add_special_tokens=False).ids) == theirs.decode(theirs.encode(text).ids)


def test_the_rules_of_the_table_that_are_not_tried_above_are_other_names_of_these():
    tried = {SPLITTINGS[rule] for rule in RULES}
    assert {rule for rule, splitting in SPLITTINGS.items() if splitting not in tried} == {"dbrx"}
    assert SPLITTINGS["dbrx"].pattern == SPLITTINGS["llama-bpe"].pattern


def test_the_file_says_what_a_text_begins_and_ends_with(tmp_path):
    def fill(writer):
        add_byte_pairs(writer, "smollm")
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)

    found = saved(tmp_path, fill)
    a = byte_tokens().index("a")
    assert found.encode("a").ids == [1, a, 0]
    assert found.encode("a", "a").ids == [1, a, 0, 1, a, 0]
    assert found.encode("a", "a").type_ids == [0, 0, 0, 1, 1, 1]


def test_settings_name_special_tokens_and_the_chat_template(tmp_path):
    found = vocabulary(tmp_path, lambda writer: (add_byte_pairs(writer, "smollm"), writer.add_eot_token_id(3)))
    assert found.document() == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": "<|start|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "chat_template": "{{ messages[0]['content'] }}",
    }
    assert found.token_ids() == {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 2} and found.ends() == [0, 3]


@pytest.mark.parametrize("name", sorted({name for name in NETWORKS if "-" not in name} - {"llama3", "linear"}))
def test_transformers_and_we_read_the_converted_tokenizer_as_it_is(name, tmp_path):
    """transformers builds the tokenizers of some model types by rules of its own, unless told otherwise."""
    write_file(tmp_path / "model.gguf", name)
    convert(tmp_path / "model.gguf", tmp_path / "out")
    plain = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = Tokenizer.from_directory(tmp_path / "out", 40, 300, 2, last_resort=lambda _: None)
    for one in TEXTS:
        assert plain.encode(one).ids == theirs(one).input_ids == ours.encode(one).ids
    assert theirs.eos_token == "<|end|>" and theirs.pad_token_id == 2
    assert theirs.apply_chat_template([{"role": "user", "content": "a cat"}], tokenize=False) == "a cat"


# --- sentencepiece --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["prefix", "no prefix"])
def trained(request, tmp_path_factory):
    """A sentencepiece model like Llama 2's (with a space before the text) or Gemma's, and the tokenizer of its file."""
    folder = tmp_path_factory.mktemp("pieces")
    lines = ["the cat sat on the mat", "a cat  sat   on 3 mats in 1999", "in the beginning was the word, the cat's"] * 9
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "pieces"), vocab_size=330, model_type="bpe",
        byte_fallback=True, split_digits=True, add_dummy_prefix=request.param, remove_extra_whitespaces=False,
        normalization_rule_name="identity", allow_whitespace_only_pieces=True, hard_vocab_limit=False, minloglevel=9,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))

    def fill(writer):
        pieces = range(model.get_piece_size())
        kinds = gguf.TokenType
        writer.add_tokenizer_model("llama")
        writer.add_token_list([model.id_to_piece(number) for number in pieces])
        writer.add_token_scores([model.get_score(number) for number in pieces])
        writer.add_token_types(
            [
                kinds.UNKNOWN if model.is_unknown(number)
                else kinds.CONTROL if model.is_control(number)
                else kinds.BYTE if model.is_byte(number)
                else kinds.NORMAL
                for number in pieces
            ]
        )  # fmt: skip
        writer.add_unk_token_id(model.unk_id())
        writer.add_bos_token_id(model.bos_id())
        writer.add_eos_token_id(model.eos_id())
        writer.add_add_space_prefix(request.param)

    return model, saved(folder, fill)


@given(text=TEXT.filter(lambda text: text and not {"<", "\0", "▁"} & set(text)))
def test_tokens_are_those_of_sentencepiece(trained, text):
    model, ours = trained
    assert ours.encode(text).ids == [model.bos_id(), *model.encode(text)]
    assert ours.decode(ours.encode(text).ids) == model.decode(model.encode(text))


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "t5"}, "a tokenizer of the kind 't5', which attncli does not read; it reads gpt2 and llama"),
        ({"pre": "tekken"}, "by the rule 'tekken', which attncli does not know"),
        ({"token_type": 3}, "different numbers of types and tokens"),
        ({"tokens": 3}, "it has no tokens"),
        ({"tokens": ["a"] * 300}, "two tokens with the same text"),
        ({"merges": ["a b c"]}, "a merge that does not have two tokens"),
        ({"merges": ["日 本"]}, "can't be read"),
        ({"merges": None}, "it has no merges"),
        ({"bos_token_id": 10**6}, "it has bos_token_id 1000000, which is not a token"),
        ({"model": "llama", "merges": None}, "no score for each token"),
    ],
)
def test_what_is_not_known_is_refused(changes, words, tmp_path):
    full = {f"tokenizer__ggml__{name}": value for name, value in changes.items()}
    write_file(tmp_path / "model.gguf", "llama", **full)
    with pytest.raises(RequestError) as caught:
        Vocabulary(GGUFFile(tmp_path / "model.gguf")).save(tmp_path / "tokenizer.json")
    assert words in str(caught.value) and "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
