"""The keys: what they do, how the footer and the page of keys say it."""

from textual.binding import Binding, BindingType

# The key, the action, what the footer calls it (nothing: it stands on the page of keys alone), and what it does.
KEYS = (
    ("i,slash,enter", "type", "type", "type a sentence; Enter or Esc goes back to the heads"),
    ("left,right", "head(-1),head(1)", "", "the head before, the next head"),
    ("up,down", "layer(-1),layer(1)", "", "the layer before, the next layer"),
    (
        "p,n",
        "telling(-1),telling(1)",
        "telling",
        "of the heads that stand out, or differ most: before, next",
    ),
    ("k,j", "query(-1),query(1)", "", "the token before, the next token; Esc lets go of it"),
    ("h,l", "key(-1),key(1)", "", "the key before, the next key: their weight"),
    ("o", "other_side", "", "hold the key's own row"),
    ("m", "mask", "mask", "the next mask"),
    ("w", "words", "words", "words or pieces"),
    ("s", "special", "", "special tokens on or off"),
    ("v", "measure", "", "weights, or norms of what is added up"),
    ("x", "silence", "silence", "silence the head, and see the others change; again: not any more"),
    ("equals_sign", "compare", "compare", "compare with the sentence before, and not any more"),
    ("u", "undo", "undo", "undo"),
    ("P", "pair", "", "give a second text"),
    ("M", "model", "", "the next model"),
    ("S", "save", "save", "save a picture, a page or a record, by the file's suffix"),
    ("y", "copy", "copy", "copy the command that gives this view"),
    ("1,2,3,0", "alone(1),alone(2),alone(3),alone(0)", "", "heads, map or tokens alone; all of them"),
    ("tab", "next_pane", "", "the next of these, where there is room for one"),
    ("d", "theme", "", "light or dark"),
    ("question_mark", "keys", "keys", "these keys"),
    ("q,ctrl+c,ctrl+q", "quit", "quit", "quit"),
)
SHOWN = {"slash": "/", "equals_sign": "=", "question_mark": "?", "left": "←", "right": "→", "up": "↑", "down": "↓",
         "enter": "Enter", "tab": "Tab", "ctrl+c": "Ctrl-C", "ctrl+q": "Ctrl-Q"}  # fmt: skip
ALWAYS = ("ctrl+c", "ctrl+q", "tab")  # while typing too


def bindings() -> list[BindingType]:
    """Every key with its action; of several keys of one action the footer shows the first."""
    made: list[BindingType] = []
    for keys, actions, name, help in KEYS:
        each = actions.split(",") if "(" in actions else [actions] * len(keys.split(","))
        for number, (key, action) in enumerate(zip(keys.split(","), each, strict=True)):
            first = number == 0 and bool(name)
            made.append(Binding(key, action, name or help, show=first, priority=key in ALWAYS))
    return [*made, Binding("escape", "let_go", "let go", show=False)]


def page_of_keys() -> list[tuple[str, str]]:
    """What the page of keys says: keys, and what they do."""
    return [(" ".join(SHOWN.get(key, key) for key in keys.split(",")), help) for keys, _, _, help in KEYS]
