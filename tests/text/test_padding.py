"""Which token pads a text: transformers' choice among the files of a checkpoint."""

import json

import pytest
from checkpoints import edit_config, make_checkpoint
from transformers import AutoTokenizer, GenerationConfig

from attncli import Notice, RequestError, load_model

SETTINGS, MAP, GENERATION = "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"
DICT = {"content": "the", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
IN_JSON = {"direction": "Right", "strategy": "BatchLongest", "pad_to_multiple_of": None, "pad_type_id": 0}
CAT = {"pad_token": "cat"}
# Files with what is added to them. The token that transformers takes differs from all others that they name.
FORMS = {
    "an object": {SETTINGS: {"pad_token": {"__type": "AddedToken", **DICT}}},
    "map before settings": {MAP: {"pad_token": "the"}, SETTINGS: CAT},
    "settings with added tokens before map": {MAP: CAT, SETTINGS: {"pad_token": "the", "added_tokens_decoder": {}}},
    "settings before tokenizer.json": {
        SETTINGS: {"pad_token": "the"},
        "tokenizer.json": {"padding": {**IN_JSON, "pad_id": 2, "pad_token": "cat"}},
    },
    "the class": {SETTINGS: {"tokenizer_class": "GPTNeoXTokenizer"}},
    "null in the map": {MAP: {"pad_token": None}, SETTINGS: CAT},
    "added by the settings": {
        SETTINGS: {"pad_token": "new", "added_tokens_decoder": {"4": {**DICT, "content": "new"}}}
    },
    "added by a file": {SETTINGS: {"pad_token": "new"}, "added_tokens.json": {"new": 4}},
}


@pytest.fixture
def checkpoint(tmp_path):
    """A decoder whose tokenizer has words and no padding token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    directory = make_checkpoint(tmp_path / "llama", "llama")
    for name in (MAP, SETTINGS, GENERATION):
        (directory / name).unlink(missing_ok=True)
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2, "<|padding|>": 3}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.save(str(directory / "tokenizer.json"))
    edit_config(directory, pad_token_id=None)
    return directory


def write(directory, form):
    for name, added in form.items():
        path = directory / name
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **added}))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("stated", [10_000, 2])
@pytest.mark.filterwarnings("ignore::attncli.Notice")
def test_the_padding_token_is_the_one_of_transformers(checkpoint, form, stated):
    write(checkpoint, form)
    edit_config(checkpoint, pad_token_id=stated)
    theirs = AutoTokenizer.from_pretrained(checkpoint).pad_token_id
    ours = load_model(checkpoint).tokenizer
    expected = theirs if theirs is not None else 2 if stated == 2 else None
    assert ours.pad_id == expected
    if expected is not None:
        assert ours.encode("the cat", pad_to=4).ids.count(expected) == 2 + (expected in (1, 2))
    else:
        with pytest.raises(RequestError, match="no padding token"):
            ours.encode("the cat", pad_to=4)


def test_generation_config_counts_before_config(checkpoint):
    write(checkpoint, {GENERATION: {"pad_token_id": 1}})
    edit_config(checkpoint, pad_token_id=2)
    tokenizer = load_model(checkpoint).tokenizer
    assert tokenizer.pad_id == GenerationConfig.from_pretrained(checkpoint).pad_token_id == 1


def test_two_places_that_disagree_are_said_once(checkpoint, recwarn):
    write(checkpoint, {SETTINGS: {"pad_token": "the"}})
    edit_config(checkpoint, pad_token_id=2)
    model = load_model(checkpoint)
    model.attend("the cat")
    assert not [one for one in recwarn if issubclass(one.category, Notice)]
    model.attend("the cat", pad_to=4), model.attend("the cat", pad_to=5)
    said = [str(one.message) for one in recwarn if issubclass(one.category, Notice)]
    assert said == [
        "padding with 'the' (id 1) from tokenizer_config.json, as transformers does; "
        "the model's configuration names 'cat' (id 2)"
    ]


def test_the_side_of_padding_stands_in_tokenizer_json_too(checkpoint):
    padding = {**IN_JSON, "direction": "Left", "pad_id": 1, "pad_token": "the"}
    write(checkpoint, {"tokenizer.json": {"padding": padding}})
    theirs = AutoTokenizer.from_pretrained(checkpoint)
    assert load_model(checkpoint).tokenizer.pads_left and theirs.padding_side == "left"
