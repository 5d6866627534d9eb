"""Chats: the parts of a prompt that messages become, under templates of the shapes that models are published with."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from attncli.base.errors import RequestError
from attncli.models.chat import prompt_of
from attncli.text.chats import Chat, Marked, located
from attncli.text.units import PartedText

CHATML = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TEMPLATES = {
    "chatml": CHATML,
    "chatml with a system of its own": "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful "
    "assistant named Ann.<|im_end|>\n{% endif %}" + CHATML,
    # Llama 2: the system message stands in the first message of the user, everything is stripped
    "llama 2": "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set system = '<<SYS>>\n' + "
    "messages[0].content + '\n<</SYS>>\n\n' %}{% else %}{% set rest = messages %}{% set system = '' %}{% endif %}"
    "{% for m in rest %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ (system if loop.first else '') + "
    "m.content.strip() }} [/INST]{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}{% endfor %}",
    "llama 3": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant"
    "<|end_header_id|>\n\n{% endif %}",
    # Gemma: refuses a system message in some; here it goes before the first user's, and the assistant has another name
    "gemma": "{{ bos_token }}{% if messages[0].role == 'system' %}{% set first = messages[0].content + '\n\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ first if loop.first else '' }}{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    # Qwen 3 and DeepSeek R1: thoughts of earlier turns are cut, of the last are written anew
    "thinking": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% set answer = "
    "m.content.split('</think>')[-1].lstrip('\n') %}{% if loop.last and m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content.strip('\n') }}\n</think>\n\n{% endif %}{{ answer }}{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
    # Hermes and Qwen 2.5: tools in the system message, calls and results as JSON between tags
    "tools": "{% if tools %}<|im_start|>system\nYou may call:\n<tools>{% for t in tools %}\n{{ t | tojson }}"
    "{% endfor %}\n</tools><|im_end|>\n{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n"
    "<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    '{% for c in m.tool_calls %}{% set f = c.function %}\n<tool_call>\n{"name": "{{ f.name }}", "arguments": '
    "{{ f.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    # Mistral: tools before the last message of the user, ids of calls are checked
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{% if tools and loop.last %}"
    "[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}[INST]{{ m.content }}[/INST]"
    "{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id | length != 9 %}"
    "{{ raise_exception('id') }}{% endif %}{{ c.function | tojson }}{% endfor %}]{{ eos_token }}"
    "{% elif m.role == 'tool' %}[TOOL_RESULTS]{\"content\": {{ m.content | tojson }}}[/TOOL_RESULTS]"
    "{% else %}{{ ' ' + m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    # Alpaca and Vicuna: plain words, no special tokens
    "plain": "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role == 'user' %}"
    "### Instruction:\n{{ m.content.strip() }}\n\n{% else %}### Response:\n{{ m.content.strip() }}\n\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}### Response:\n{% endif %}",
    "repeats": "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}\n\nRead it again:\n{{ m.content }}\n"
    "{% else %}{{ m.role | upper }}: {{ m.content | upper }}\n{% endif %}{% endfor %}",
    # looks at what it writes: whether a user's message is a result, and letter by letter
    "looks": "{% for m in messages %}{% if m.content.startswith('<tool_response>') %}RESULT {{ m.content }}"
    "{% elif m.content == 'Is it big?\n' %}QUESTION {{ m.content }}{% else %}{{ m.role }}: {{ m.content }}{% endif %}\n"
    "{% endfor %}",
}
TWO = Chat([{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Is it big?\n"}])
LONG = Chat(
    [
        {"role": "user", "content": "user\n\nassistant <|im_end|>"},
        {"role": "assistant", "content": '<think>\nI think.\n</think>\n\nYes, "it" is…'},
        {"role": "user", "content": "猫? 🙂 Why?"},
        {"role": "assistant", "content": "Because.", "reasoning_content": "Let me see."},
    ]
)
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather now", "parameters": {}}}
CALLED = Chat(
    [
        {"role": "user", "content": "Paris?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "abcdefghi",
                    "type": "function",
                    "function": {"name": "weather", "arguments": {"city": 'Paris "1"', "days": 3}},
                }
            ],
        },
        {"role": "tool", "content": '{"sun": "yes"}', "tool_call_id": "abcdefghi"},
        {"role": "user", "content": "And now?"},
    ],
    [TOOL],
)


def parted(chat, template):
    """The prompt of a chat with its parts, made in this process."""
    job = {"template": template, "marks": {"bos_token": "<s>", "eos_token": "</s>"}, "answered": False}
    marked = [Marked.of(chat, every) for every in (True, False)]
    plain, *others = (prompt_of(render_jinja_template, job, *one) for one in (chat, *(one.private for one in marked)))
    found, left_out = located(
        plain["prompt"], [(one, made.get("prompt")) for one, made in zip(marked, others, strict=True)]
    )
    assert found.text == plain["prompt"] and found.rest == "template"
    return found, left_out


def parts_of(found):
    return [(part.name, found.text[part.start : part.end]) for part in found.parts]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_message_is_found_in_every_shape(name):
    expected = [("system", "Be brief."), ("user", "Is it big?")]
    if name == "repeats":
        expected = [("system", "BE BRIEF."), ("user", "Is it big?"), ("user", "Is it big?")]
    if name == "mistral":  # writes any other message as the model's
        expected = [("system", "Be brief."), ("user", "Is it big?")]
    found, left_out = parted(TWO, TEMPLATES[name])
    assert parts_of(found) == expected and left_out == []


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in ("thinking", "repeats", "llama 2")])
def test_messages_with_the_words_of_a_template_and_thoughts(name):
    found, left_out = parted(LONG, TEMPLATES[name])
    contents = [one["content"] for one in LONG.messages]
    assert [one for one in parts_of(found) if one[0] != "think"] == list(
        zip(["user", "assistant", "user 2", "assistant 2"], contents, strict=True)
    )
    assert ("think", "I think.") in parts_of(found)
    assert left_out == []


def test_thoughts_that_are_cut_and_thoughts_that_are_written():
    found, _ = parted(LONG, TEMPLATES["thinking"])
    assert parts_of(found) == [
        ("user", "user\n\nassistant <|im_end|>"),
        ("assistant", 'Yes, "it" is…'),
        ("user 2", "猫? 🙂 Why?"),
        ("assistant 2", "Let me see.\n</think>\n\nBecause."),
    ]


def test_calls_and_results_of_tools():
    found, left_out = parted(CALLED, TEMPLATES["tools"])
    assert parts_of(found) == [
        ("tools", json.dumps(TOOL)),
        ("user", "Paris?"),
        ("assistant", '{"name": "weather", "arguments": {"city": "Paris \\"1\\"", "days": 3}}'),
        ("tool", '{"sun": "yes"}'),
        ("user 2", "And now?"),
    ]
    assert left_out == []
    found, left_out = parted(CALLED, TEMPLATES["mistral"])
    assert [name for name, _ in parts_of(found)] == ["user", "assistant", "tool", "tools", "user 2"]
    assert parts_of(found)[2] == ("tool", '{\\"sun\\": \\"yes\\"}') and left_out == []


def test_messages_without_words_are_in_no_part():
    """Content that is empty, null or not there; calls alone are a part where the template writes them."""
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    empty = Chat.of([{"role": "user", "content": ""}, {"role": "user", "content": None}, {"role": "user"}])
    found, left_out = parted(empty, CHATML)
    assert found.parts == () and left_out == [] and [run.name for run in found.runs] == ["template"]
    asked = Chat.of([{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}])
    found, left_out = parted(asked, CHATML)
    assert parts_of(found) == [("user", "Hi")] and left_out == ["assistant"]
    found, left_out = parted(asked, TEMPLATES["tools"])
    assert parts_of(found)[1] == ("assistant", '{"name": "f", "arguments": {}}') and left_out == []


def test_what_a_template_leaves_out_is_named():
    found, left_out = parted(TWO, "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    assert parts_of(found) == [("user", "Is it big?")] and left_out == ["system"]


def test_runs_of_a_prompt_name_the_template():
    found, _ = parted(TWO, TEMPLATES["chatml with a system of its own"])
    assert [run.name for run in found.runs] == ["template", "system", "template", "user", "template"]
    found, _ = parted(Chat.of_user("Hi"), TEMPLATES["chatml with a system of its own"])
    assert [run.name for run in found.runs] == ["template", "user", "template"]
    assert found.text[found.runs[0].start : found.runs[0].end].endswith("<|im_start|>user\n")


@given(
    st.lists(st.text('ab <think></>"\\{}.\n中🙂é1', max_size=30), min_size=1, max_size=4),
    st.sampled_from(["chatml", "llama 3", "gemma", "plain", "tools"]),
)
def test_every_content_is_found(contents, name):
    chat = Chat([{"role": "user", "content": one} for one in contents])
    found, left_out = parted(chat, TEMPLATES[name])
    expected = [(part, one.strip()) for part, one in zip(chat.names, contents, strict=True) if one.strip()]
    assert parts_of(found) == expected and left_out == []


def test_documents_in_a_message_are_parts_inside_it():
    text = '<doc id="1">One.</doc> <doc id="2">\nTwo. \n</doc>\nWhich?'
    chat = Chat([{"role": "user", "content": text}, {"role": "user", "content": text + " <b>"}])
    found, _ = parted(chat, TEMPLATES["llama 3"])
    inner = [("doc 1", "One."), ("doc 2", "Two.")]
    again = [("doc 1 2", "One."), ("doc 2 2", "Two.")]
    assert parts_of(found) == [("user", text), *inner, ("user 2", text + " <b>"), *again]
    assert [run.name for run in found.runs][:6] == ["template", "user", "doc 1", "user", "doc 2", "user"]
    found, _ = parted(Chat.of_user(f"\n  {text}"), TEMPLATES["llama 3"])  # which strips it
    assert parts_of(found) == [("user", text), *inner]
    found, _ = parted(Chat.of_user(text), TEMPLATES["repeats"])
    assert parts_of(found) == [("user", text), *inner, ("user", text), *inner]


def test_a_long_message_is_whole():
    text = "".join(f'{number} is a number, and "{number}" too.\n' for number in range(5000)).strip()
    found, _ = parted(Chat([*LONG.messages, {"role": "user", "content": text}]), CHATML)
    assert parts_of(found)[-1] == ("user 3", text)


# --- files -----------------------------------------------------------------------------------------------


def test_a_document_is_a_list_of_messages_or_has_one():
    messages = [{"role": "user", "content": "Hi"}]
    assert Chat.of(messages) == Chat.of({"messages": messages, "model": "x"}) == Chat.of_user("Hi")
    assert Chat.of({"messages": messages, "tools": [TOOL]}).tools == [TOOL]


def test_content_is_one_text_and_arguments_are_values():
    call = {"function": {"name": "f", "arguments": json.dumps({"a": 1})}}
    document = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call, {"function": {"arguments": "{"}}]},
    ]
    first, second = Chat.of(document).messages
    assert first["content"] == "a\nb" and second["content"] == ""
    assert [one["function"]["arguments"] for one in second["tool_calls"]] == [{"a": 1}, "{"]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "a chat is a list of messages"),
        ([], "a chat is a list of messages"),
        ("hi", "a chat is a list of messages"),
        (["hi"], "message 1 has no role"),
        ([{"content": "a"}], "message 1 has no role"),
        ([{"role": "user", "content": 5}], "the content of message 1 is the int 5: give text"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "message 1 has content that is not text"),
        ({"messages": [{"role": "user"}], "tools": 5}, "tools are a list of objects"),
    ],
)
def test_what_is_no_chat_is_one_line(document, why):
    with pytest.raises(RequestError, match=f"^{why}"):
        Chat.of(document)


def test_parts_of_a_chat_are_parts_of_its_text():
    assert located("Hi", [(Marked.of(Chat.of_user("Hi"), True), None)])[0] == PartedText(
        "Hi", (("user", 0, 2),), "template", True
    )
