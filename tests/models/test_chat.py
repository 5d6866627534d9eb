"""Chat templates: the prompt of transformers, and one line for a template that fails, hangs or grows."""

import json

import pytest
from transformers import PreTrainedTokenizerFast

from attncli import RequestError
from attncli.models import chat

LOOP = "{% for a in range(99999) %}"


def applied(directory, template, **settings):
    (directory / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
    return chat.chat_prompt(directory, "the cat")


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] | upper }}\n{% endfor %}",
        "{%- if add_generation_prompt %}\n  {{- messages | tojson(indent=1) }}\n{%- endif %}",
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ eos_token }}",
        "{% if unk_token is defined %}{{ unk_token }}{% else %}none{% endif %}",
        "{% set ns = namespace(x='a') %}{% for i in [1, 2] %}{% set ns.x = i %}{% break %}{% endfor %}{{ ns.x }}",
    ],
)
def test_the_prompt_is_the_one_of_transformers(template, tmp_path):
    from tokenizers import Tokenizer, models

    theirs = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})), bos_token="<s>")
    theirs.eos_token, theirs.chat_template = "</s>", template
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": "the cat"}], tokenize=False, add_generation_prompt=True
    )
    assert applied(tmp_path, template, bos_token="<s>", eos_token={"content": "</s>"}) == expected


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (LOOP * 3 + "{% endfor %}" * 3, "takes more than 1 seconds"),
        (LOOP + "{% set x = lipsum(n=100) %}{% endfor %}", "takes more than 1 seconds"),
        (
            "{% macro f(x) %}{% if x %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
            "more than 1 sec",
        ),
        ("{{ ('x ' * 5000000) | wordwrap(1) }}", "takes more than 1 seconds"),
        ("{{ 10 ** (10 ** 10) }}", "takes more than 1 seconds"),
        ("{{ 'x' * 10 ** 12 }}", "needs more than 1.1 GB"),
        ("{{ 'x' | center(10 ** 11) }}", "needs more than 1.1 GB"),
        ("{{ '%0999999999999d' | format(1) }}", "needs more than 1.1 GB"),
        ("{{ 'x' * 10 ** 7 }}", "writes more than 1,048,576 characters"),
        ("{{ range(10 ** 9) }}", "[Rr]ange"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion"),
        ("{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}", "recursion"),
        ("{% set ns = namespace(__class__=1) %}", "underscore"),
    ],
    ids=range(13),
)
def test_a_template_that_hangs_or_grows_is_one_line(template, why, tmp_path, monkeypatch):
    monkeypatch.setattr(chat, "_LONGEST_WORK", 1)
    with pytest.raises(RequestError, match=f"^the chat template in .* fails: .*{why}") as caught:
        applied(tmp_path, template)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("token", [["<s>"], {"content": ["<s>"]}, {}, 5, True, None])
def test_a_special_token_of_another_type_is_none(token, tmp_path):
    assert applied(tmp_path, "{{ bos_token is defined }}", bos_token=token) == "False"


@pytest.mark.parametrize("name", [["default"], {"a": 1}, 5, None])
def test_a_name_of_another_type_names_no_template(name, tmp_path):
    template = [{"name": "default", "template": "a"}, {"name": name, "template": "b"}, "c"]
    assert applied(tmp_path, template) == "a"
    with pytest.raises(RequestError, match="has no chat template"):
        applied(tmp_path, template[1:])
