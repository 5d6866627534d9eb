"""Why two texts are similar: the cosine of their embeddings as a sum over pairs of their tokens.

    e = Σ_i z_i,  e' = Σ_j z'_j        cos(e, e') = Σ_ij z_i · z'_j / (‖e‖ ‖e'‖)

Exactly, where the embedding is such a sum (`attncli.effects.embedding_parts`). It credits contextual vectors: the last
ones of the tokens, which the whole text has gone into. What input tokens do is another question, with an answer by
integration for every network (`attncli.effects.integrated`).
"""

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from torch import Tensor, nn

from attncli.analysis.similarity import Cosines, References, Similarity
from attncli.base import choices
from attncli.base.arguments import check_text, check_texts
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.effects.ablation import ablation
from attncli.effects.asking import Asking, question
from attncli.effects.copies import Unchanged
from attncli.effects.embedding_parts import LEAST, has_bias, in_float64, norm, parts_of
from attncli.effects.integrated import check_steps, integrated
from attncli.effects.questions import Cosine
from attncli.models.engine import Engine
from attncli.models.output import LAST, MEAN, Found, Output
from attncli.models.outputs import embed
from attncli.models.tapped import TappedModel, require_tapped

POOLS = {"mean": MEAN, "last": LAST}  # names of --pool, and what `attncli.models.outputs` calls them
STEPS = 64  # with which the integrals of sentences end within 1e-5


def similar(
    model: Engine,
    first: str,
    second: str,
    inputs: bool = False,
    steps: int = STEPS,
    mask: str | None = None,
    progress: Progress = silent,
    pool: str | None = None,
) -> Similarity:
    """The cosine of two texts taken apart, and the effect of each head on it (`attncli.effects.ablation`).

    inputs: credit input tokens by integrated Jacobians of so many steps, and not the last vectors. mask: of
    `choices.Mask`. progress: is told of the 2 * (steps + 1) steps that `inputs` take. pool: of `choices.Pool`, for a
    checkpoint whose files do not say how they pool vectors. Of an encoder-decoder the encoder makes the vectors.

    Raises RequestError as `pooled_as` does, where the embedding is no sum over tokens (without `inputs`), and where
    steps are no multiple of 4.
    """
    check_text("second", second)
    if inputs:
        check_steps(steps)
    model = pooled_as(model, pool)
    asked = question(model, first, Asking(similar_to=second, mask=mask))
    assert isinstance(asked, Cosine)
    output = in_float64(asked.output)
    cosine = float(Cosine(asked.texts, output)([text.last.double() for text in asked.texts])[0])
    if not np.isfinite(cosine):
        raise RequestError(
            f"{model.place.name} makes vectors too large for {model.dtype_name}: another --dtype has room"
        )
    one, other = asked.texts
    references = None
    if inputs:
        with progress(2 * (steps + 1), "steps") as advance:
            cells, references = of_inputs(one, other, output, steps, cosine, advance)
    else:
        cells = credit(one, output) @ credit(other, output).T
    return Similarity(
        model=model.info,
        cosine=cosine,
        tokens=one.tokens,
        key_tokens=other.tokens,
        contributions=cells.cpu().numpy(),
        pooling=output.pooling,
        biased=has_bias(output),
        effects=ablation(model, [asked], mask=mask),
        references=references,
    )


def credit(text: Unchanged, output: Output) -> Tensor:
    """What each token brings to the embedding of length 1, `[token, size]`."""
    parts = parts_of(output, text.last[0].double(), text.tokens)
    return parts / norm(parts.sum(dim=0))


def of_inputs(
    one: Unchanged, other: Unchanged, output: Output, steps: int, cosine: float, advance: Callable[[], None]
) -> tuple[Tensor, References]:
    """What pairs of input tokens contribute, `[token, key token]`, and what is left over for the references."""
    a, b = (integrated(text, output, steps, advance) for text in (one, other))
    first, second, both = (
        float(x @ y) for x, y in ((a.reference, b.embedding), (a.embedding, b.reference), (a.reference, b.reference))
    )
    half = float((a.half @ b.half.T).sum()) + first + second - both - cosine
    return a.tokens @ b.tokens.T, References(first, second, both, steps, half)


def cosines(model: Engine, texts: Sequence[str], mask: str | None = None, pool: str | None = None) -> Cosines:
    """Compute the cosine of every two texts. pool: as for `similar`. Raises RequestError as `pooled_as` does."""
    model = pooled_as(model, pool)
    check_texts("texts", texts)
    vectors = embed(model, texts, mask).astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True).clip(min=LEAST)
    return Cosines(model.info, list(texts), units @ units.T)


def pooled_as(model: Engine, pool: str | None) -> TappedModel:
    """Return the model whose output "embedding" pools the last vectors as asked, of `choices.Pool`.

    None: as the checkpoint says. Raises RequestError where the checkpoint says nothing and pool is None, and where both
    say something.
    """
    several = isinstance(model, Engine) and len(model.parts) > 1
    tapped = require_tapped(model, "encoder" if several else None)
    if pool is not None:
        choices.check("pooling", pool, choices.Pool)
    outputs, refused = tapped.found
    if "embedding" in {*outputs, *refused}:
        if pool is not None:
            raise RequestError(f"the files of {tapped.place.name} say how its vectors are pooled: leave --pool out")
        return tapped
    if pool is None:
        raise RequestError(
            f"the files of {tapped.place.name} do not say how the vectors of a text become one: add --pool mean, or "
            "--pool last (the last token)"
        )
    made = copy(tapped)
    embedding = Output("embedding", [POOLS[pool]], None, list, nn.Sequential)
    vars(made)["found"] = Found({**outputs, "embedding": embedding}, refused)
    return made
