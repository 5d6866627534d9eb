"""Chat templates: the prompt of transformers, and one line for a template that fails, hangs or grows."""

import json

import pytest
from transformers import PreTrainedTokenizerFast

from attncli import RequestError
from attncli.base.errors import Notice
from attncli.models import chat
from attncli.models.hub import locate
from attncli.text.chats import Chat
from attncli.text.units import Part, PartedText

LOOP = "{% for a in range(99999) %}"
# What templates use, in one: marks, messages, filters, transformers' own tags, a namespace and a break.
TEMPLATE = """{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] | upper }}
{% endfor %}{%- if add_generation_prompt %}
  {{- messages | tojson(indent=1) }}
{%- endif %}{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ eos_token }}
{% if unk_token is defined %}{{ unk_token }}{% else %}none{% endif %}
{% set ns = namespace(x='a') %}{% for i in [1, 2] %}{% set ns.x = i %}{% break %}{% endfor %}{{ ns.x }}"""


def applied(directory, template, **settings):
    (directory / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
    return chat.chat_text(directory, Chat.of_user("the cat")).text


def test_the_prompt_is_the_one_of_transformers(tmp_path):
    from tokenizers import Tokenizer, models

    theirs = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})), bos_token="<s>")
    theirs.eos_token, theirs.chat_template = "</s>", TEMPLATE
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": "the cat"}], tokenize=False, add_generation_prompt=True
    )
    assert applied(tmp_path, TEMPLATE, bos_token="<s>", eos_token={"content": "</s>"}) == expected


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (LOOP * 3 + "{% endfor %}" * 3, "took more than 1 seconds"),
        ("{{ 'x' * 10 ** 12 }}", "needs more than 1.1 GB"),
        *(
            pytest.param(template, why, marks=pytest.mark.slow)
            for why, templates in {
                "took more than 1 seconds": [
                    "{% macro f(x) %}{% if x %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
                    "{{ 10 ** (10 ** 10) }}",
                ],
                "needs more than 1.1 GB": ["{{ '%0999999999999d' | format(1) }}"],
                "[Rr]ange": ["{{ range(10 ** 9) }}"],
                "recursion": ["{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}"],
            }.items()
            for template in templates
        ),
        ("{{ 'x' * 10 ** 7 }}", "writes more than 1,048,576 characters"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion"),
        ("{% set ns = namespace(__class__=1) %}", "underscore"),
    ],
    ids=range(10),
)
def test_a_template_that_hangs_or_grows_is_one_line(template, why, tmp_path, monkeypatch):
    monkeypatch.setattr(chat, "_LONGEST_WORK", 1)
    with pytest.raises(RequestError, match=f"^the chat template in .* fails: .*{why}") as caught:
        applied(tmp_path, template)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_settings_of_another_type_count_for_nothing(tmp_path):
    """Special tokens that are no text, and templates that no text names."""
    marks = {
        "bos_token": ["<s>"],
        "eos_token": {"content": ["<s>"]},
        "unk_token": {},
        "sep_token": 5,
        "cls_token": True,
    }
    template = "".join(f"{{{{ {name} is defined }}}} " for name in marks) + "{{ messages[0].content }}"
    named = [{"name": name, "template": "b"} for name in (["default"], {"a": 1}, 5, None)]
    assert (
        applied(tmp_path, [{"name": "default", "template": template}, *named, "c"], **marks) == "False " * 5 + "the cat"
    )
    with pytest.raises(RequestError, match="has no chat template"):
        applied(tmp_path, [*named, "c"])


def test_a_chat_is_parted_by_its_messages(tmp_path):
    template = "{% for m in messages if m.role != 'tool' %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}"
    template += "{% if add_generation_prompt %}<assistant>{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    messages = [{"role": "user", "content": " Hi "}, {"role": "tool", "content": "5"}]
    with pytest.warns(Notice, match="^the chat template omits tool$"):
        parted = chat.chat_text(tmp_path, Chat(messages))
    assert parted == PartedText("<user>Hi\n<assistant>", (Part("user", 6, 8),), "template", True)
    messages[1] = {"role": "assistant", "content": "Hello"}
    parted = chat.chat_text(tmp_path, Chat(messages))
    assert parted.text == "<user>Hi\n<assistant>Hello\n" and parted.parts[1] == ("assistant", 20, 25)


def test_a_template_that_looks_at_punctuation_is_marked_in_another_way(tmp_path):
    """It writes another prompt where every character is private, and a search would not find what it writes."""
    asks = "{{ 'Q: ' if m.content.endswith('?') else 'S: ' }}"
    template = f"{{% for m in messages %}}{asks}{{{{ m.content | upper }}}}\n{{% endfor %}}"
    (tmp_path / "chat_template.jinja").write_text(template)
    parted = chat.chat_text(tmp_path, Chat.of_user("Is it big?"))
    assert parted == PartedText("Q: IS IT BIG?\n", (Part("user", 3, 13),), "template", True)


@pytest.mark.slow
@pytest.mark.parametrize("system", [True, False])
def test_the_chat_of_a_published_model(system):
    from transformers import AutoTokenizer

    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is it 3 or 4?"},
        {"role": "assistant", "content": "It is 4."},
        {"role": "user", "content": "Is it 3 or 4? "},
    ][not system :]
    path = locate("smollm2").path
    parted = chat.chat_text(path, Chat(messages))
    theirs = AutoTokenizer.from_pretrained(path)
    assert parted.text == theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    contents = [one["content"].strip() for one in messages]
    assert [parted.text[part.start : part.end] for part in parted.parts] == contents
    assert [part.name for part in parted.parts] == ["system", "user", "assistant", "user 2"][not system :]
