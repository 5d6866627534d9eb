"""Files that are whole and say what can't be: to be refused. And files in another order, which say the same."""

import json
from collections.abc import Callable
from random import Random

from hostile.case import Case
from hostile.documents import put
from hostile.kinds.damage import parts_of, put_together
from hostile.members import archive_of, arrays, member, with_member
from hostile.place import Place, words

RED = '"\\u001b[31mred"'
# What a value may be put to, by the place where it stands; # is any number.
STATISTICS = {
    "entropy_limit": ("NaN", "-1", "0", "1e400", '"4"', "[]", "null", "[1, 2]"),
    "texts": ("-3", "0", "1e400", "1.5", '"7"', "null", "1000000"),
    "tokens": ("-3", "0", "1e400", "1.5", "1"),
    "partial": ('"yes"', "5", "null"),
    "words": ('"no"', "5"),
    "mask": (RED, "5", '"sideways"', "null"),
    "measure": (RED, "5", '"length"'),
    "kind": (RED, "5", '"sideways"'),
    "model.name": ("5", "null"),
    "model.layers": ("3", "5", "-4", "4.0", '"4"', "0"),
    "model.heads": ("3", "16", "-4", "4.0"),
    "model.hidden_size": ("-32", '"x"'),
}
OF_HEADS = {
    "heads.#.figures.entropy": ("-5", "99", "NaN", '"1"', "null", "1e400"),
    "heads.#.figures.self": ("99", "-1", "NaN", "1.5"),
    "heads.#.figures.strongest": ("1.5", "-0.5"),
    "heads.#.figures.distance": ("-2", "NaN"),
    "heads.#.spread.entropy": ("-1", "NaN", "1e400"),
    "heads.#.label": ('"sideways"', "5", RED),
    "heads.#.strength": ("7", "-1", "NaN"),
    "heads.#.layer": ("99", "-1", '"0"', "1.5"),
    "heads.#.head": ("99", "-1", "null"),
    "heads.#": ("-",),
    "alike.#.entropy": ("-5", "99", "NaN"),
}
RECORD = {
    "mask_name": (RED, "5", "null", '"sideways"'),
    "kind": ('"sideways"', "5", '"cross"'),
    "measure": ('"length"', "5"),
    "model.name": ("5", "[]"),
    "model.layers": ("1", "-1", "4.0"),
    "model.heads": ("1", "1.5"),
    "tokens.segments.1": ("-5", "7", '"0"', "1.5"),
    "tokens.ids.1": ("-5", "1.5", "true"),
    "tokens.special.1": ("5", '"no"'),
    "tokens.words.1": ("-7", '"x"', "1.5"),
    "tokens.offsets.1": ("[5]", "[5, 2]", "[-1, 2]", '["a", "b"]', "[1e400, 2]", "[NaN, 1]"),
    "tokens.text.1": ("5", "null"),
}
ARRAYS = ("maps.npz", "maps.safetensors")
READ = ("run --from {} --json", "stats --from {} --json", "flow --from {} --json")


def make(random: Random, place: Place) -> Case:
    return random.choice((statistics, statistics, record, weights, weights, reordered))(random, place)


def case(line: str, name: str, content: bytes, note: str, same_as: str | None = None) -> Case:
    same = tuple(words(same_as)) if same_as else None
    return Case(
        "lies", tuple(words(line)), {name: content}, expects="any" if same else "refused", same_as=same, note=note
    )


def lie(table: dict[str, tuple[str, ...]], random: Random, most: int) -> dict[str, str]:
    name = random.choice(list(table))
    return {name.replace("#", str(random.randrange(most))): random.choice(table[name])}


def statistics(random: Random, place: Place) -> Case:
    """Draw a file with false values for `stats --from`."""
    if random.random() < 0.4:
        changes = lie(STATISTICS, random, 1)
        if random.random() < 0.5 and "model." not in next(iter(changes)):
            content = place.original("stats.npz")
            content = with_member(content, "about", put(member(content, "about"), changes))
            return case("stats --from lie.npz --json", "lie.npz", content, str(changes))
    else:
        changes = lie(OF_HEADS, random, 4)
    made = put(place.original("stats.json").decode(), changes)
    computed = next(iter(changes)).endswith(("label", "strength"))  # from the figures, whatever is said
    same = "stats --from stats.json --json" if computed else None
    return case("stats --from lie.json --json", "lie.json", made.encode(), str(changes), same)


def record(random: Random, place: Place) -> Case:
    """Draw a record whose description has false values."""
    changes = lie(RECORD, random, 1)
    line = random.choice(READ)
    if random.random() < 0.5:
        content = place.original("maps.npz")
        made = with_member(content, "labels", put(member(content, "labels"), changes))
        return case(line.format("lie.npz"), "lie.npz", made, str(changes))
    header, data = parts_of(place.original("maps.safetensors"))
    about = header["__metadata__"]
    about["records"] = put(about["records"], {f"0.{name}": value for name, value in changes.items()})
    return case(line.format("lie.safetensors"), "lie.safetensors", put_together(json.dumps(header), data), str(changes))


def weights(random: Random, place: Place) -> Case:
    """Rows that sum to 5 or to a half, weights below 0, weights where nothing may be attended to."""
    named = arrays(place.original("maps.npz"))
    maps, mask = named["weights"].copy(), named["mask"].copy()
    layer, head, query = (random.randrange(size) for size in maps.shape[:3])
    way = random.randrange(4)
    row = maps[layer, head, query]
    if way == 0:
        row *= 5
    elif way == 1:
        row *= 0.5
    elif way == 2:
        row[0], row[1] = -0.25, row[0] + row[1] + 0.25
    else:
        mask[..., query, int(row.argmax())] = False
    named["weights"], named["mask"] = maps, mask
    note = ("a row sums to 5", "a row sums to a half", "a weight below 0", "a weight that is hidden")[way]
    line = random.choice(READ).format("lie.npz")
    return case(line, "lie.npz", archive_of(named), note)


def reordered(random: Random, place: Place) -> Case:
    """Heads or layers in another order are the same heads and layers."""
    shuffled: Callable[[list], list] = lambda found: random.sample(found, len(found))  # noqa: E731
    if random.random() < 0.5:
        document = json.loads(place.original("stats.json"))
        document["heads"] = shuffled(document["heads"])
        line = "stats --from {} --json"
        made = json.dumps(document).encode()
        return case(line.format("lie.json"), "lie.json", made, "heads in another order", line.format("stats.json"))
    named = arrays(place.original("maps.npz"))
    axis = random.choice(("layers", "heads"))
    order = shuffled(list(range(len(named[axis]))))
    named[axis] = named[axis][order]
    for name in ("weights", "usual_sums"):
        named[name] = named[name][order] if axis == "layers" else named[name][:, order]
    if axis == "layers":
        named["usual_counts"] = named["usual_counts"][order]
    line = random.choice(("stats --from {} --json", "find cat sat --from {} --json"))
    return case(
        line.format("lie.npz"), "lie.npz", archive_of(named), f"{axis} in another order", line.format("maps.npz")
    )
