"""attncli similar: why two texts are similar."""

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import read_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.similarity import Cosines, Similarity

SAMPLES = ("The cat sat on the mat.", "A cat is sitting on a rug.")


def similar(
    context: typer.Context,
    first: Annotated[str | None, options.argument("A", "A text. Without both: two samples.")] = None,
    second: Annotated[str | None, options.argument("B", "The other one.")] = None,
    file: options.File = None,
    apart: Annotated[
        str | None,
        options.option(options.TEXT, "--apart", metavar="N,N", help="Of a file: take these two apart, counted from 0."),
    ] = None,
    inputs: Annotated[
        bool, options.option(options.SELECTION, "--inputs", help="Credit input tokens, by integrated Jacobians.")
    ] = False,
    steps: Annotated[
        int,
        options.option(options.MODEL, "--steps", rare=True, metavar="N", min=1, help="Of --inputs; a multiple of 4."),
    ] = 64,
    words: options.Words = False,
    top: Annotated[
        int, options.option(options.OUTPUT, "--top", metavar="N", min=1, help="How many pairs and heads to list.")
    ] = 5,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    pool: Annotated[
        choices.Pool | None,
        options.option(
            options.MODEL,
            "--pool",
            metavar="NAME",
            help="mean of all tokens or last token, for a model whose files name no pooling.",
        ),
    ] = None,
    output_path: options.PictureOrPage = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Say why two texts are similar: which pairs of tokens make it.

    The cosine of two sentence embeddings is a sum over pairs of their tokens' last vectors, which are contextual; the
    cells sum to it exactly. --inputs asks what input tokens do, by integrated Jacobians (Moeller et al. 2024), against
    references. Beside it the effect of each head (attncli ablate has all). Several texts (-f): all cosines.

    \b
    Examples:
      attncli similar "The cat sat on the mat." "A cat is sitting on a rug."
      attncli similar --inputs -o inputs.png "The cat sat." "A cat sits."
      attncli similar -f sample_inputs/similarity.txt
      attncli similar -f sample_inputs/similarity.txt --apart 2,3 --words
    """
    if output_path is not None:
        saving.check(output_path, "what is similar", page=file is None or apart is not None)
    if not inputs:
        refuse(context, "without --inputs, which integrates", "steps")
    texts = texts_of(context, first, second, file)
    if file is not None and apart is None:
        refuse(context, "on a matrix of cosines, of which --apart takes one apart", "inputs", "steps", "words", "top")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all pairs", "top")
    from attncli.cli.source import opening_of

    opened = opening_of(context.params).open()
    from attncli.effects import similarity

    found: Cosines | Similarity
    if file is not None and apart is None:
        found = similarity.cosines(opened, texts, mask, pool)
    else:
        one, other = texts if apart is None else chosen(texts, apart)
        from attncli.cli.progress import progress

        found = similarity.similar(opened, one, other, inputs, steps, mask, progress, pool)
        found = found.merged() if words else found
    if json:
        output.json_document(found.document())
    elif output_path is None:
        show(found, top)
    if output_path is not None:
        saving.save(output_path, found.document, lambda _: found.rows(), lambda: figure(found), lambda: page(found))
        output.file(output_path, json)
    elif file is None and not inputs:
        hints.offer(context, "the same of input tokens", "similar", first=one, second=other, inputs=True)


def texts_of(context: typer.Context, first: str | None, second: str | None, file: str | None) -> list[str]:
    """The texts meant; without any two samples. Raises RequestError where one is missing, or both ways are taken."""
    if file is None:
        refuse(context, "without -f, whose texts it counts", "apart")
    elif first is not None:
        raise RequestError("both texts and --file are given: which are meant?")
    if file is not None:
        return read_lines(file)
    if first is None:
        output.say('attncli: no texts given, so these: "{}" and "{}"'.format(*SAMPLES))
        return [*SAMPLES]
    if second is None:
        raise RequestError("a cosine is of two texts: give the other one as B, or several with -f")
    return [first, second]


def chosen(texts: list[str], numbers: str) -> list[str]:
    """Two of them. Raises RequestError for a number that there is not, and where there are not two."""
    from attncli.record.selection import select

    found = [texts[number] for number in select(numbers, len(texts), "text")]
    if len(found) != 2:
        raise RequestError(f"--apart {quoted(numbers)}: two texts are taken apart, as in --apart 0,1")
    return found


def show(found: "Cosines | Similarity", top: int) -> None:
    from attncli.analysis.similarity import Cosines
    from attncli.render.terminal.similarity import cosines_view, similarity_view

    canvas = output.canvas()
    output.show(*(cosines_view(found, canvas) if isinstance(found, Cosines) else similarity_view(found, top, canvas)))


def figure(found: "Cosines | Similarity") -> "Figure":
    """What -o draws."""
    from attncli.analysis.similarity import Cosines
    from attncli.render.figures.similarity import cosines_figure, similarity_figure

    return cosines_figure(found) if isinstance(found, Cosines) else similarity_figure(found)


def page(found: "Cosines | Similarity") -> str:
    """A page for -o, of one cosine."""
    from attncli.analysis.similarity import Similarity
    from attncli.render.page.similarity import similarity_page

    assert isinstance(found, Similarity)  # else `saving.check` has refused it
    return similarity_page(found)
