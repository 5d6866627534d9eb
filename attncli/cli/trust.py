"""attncli trust: whether attention is an explanation of one output of one text."""

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base.files import PICTURES
from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.trust import Trust


def trust(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    similar_to: options.SimilarTo = None,
    file: options.File = None,
    ask: options.Ask = None,
    target: options.Label = None,
    at: options.At = None,
    task: options.Task = None,
    permutations: Annotated[
        int,
        options.option(
            options.MODEL, "--permutations", metavar="N", min=1, help="Of the weights, and orders of the tokens."
        ),
    ] = 100,
    rankings: Annotated[
        int,
        options.option(
            options.MODEL,
            "--rankings",
            metavar="N",
            min=120,
            help="Random ones, as control; more where they leave a verdict open.",
        ),
    ] = 200,
    beam: Annotated[
        int | None,
        options.option(
            options.MODEL,
            "--beam",
            rare=True,
            metavar="N",
            min=0,
            help="How widely to search what any ranking could reach; 0 tries all.",
            show_default="0 up to 12 tokens, 5 up to 24, else no search",
        ),
    ] = None,
    seed: Annotated[
        int, options.option(options.MODEL, "--seed", rare=True, metavar="N", min=0, help="Of what is drawn.")
    ] = 0,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    which: options.OwnWhich = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Ask whether attention explains an output here.

    Other weights are put in, permuted and uniform, and tokens are ranked by attention, norms, rollout, ALTI and
    gradients: does the output hang on those that a ranking puts first, more than on those that random ones do? Tokens
    are erased by [MASK] and by deletion. The output is asked as in ablate; without --target for the likeliest label.
    What each number can say stands in attncli/effects/README.md.

    \b
    Examples:
      attncli trust "The cat sat on the mat." --similar-to "A cat is sitting on a rug."
      attncli trust -o trust.png "The cat sat on the mat."
    """
    if output_path is not None:
        suffix = saving.check(output_path, "what is measured")
        if suffix in PICTURES and not json:
            why = "on a picture, which shows the rankings and nothing that is drawn"
            refuse(context, why, "permutations", "rankings", "beam", "seed")
    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one to ask about as TEXT")
    from attncli.cli.source import open_tapped
    from attncli.effects.asking import Asking
    from attncli.effects.trust.evidence import Controls
    from attncli.effects.trust.evidence import trust as find

    asking = Asking(pair, similar_to, target, at, ask, task, mask, which)
    opened = open_tapped(context.params)
    from attncli.cli.progress import progress

    found = find(opened, inputs[0].text, asking, Controls(permutations, rankings, beam, seed), progress)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        from attncli.render.terminal.trust import trust_view

        output.show(*trust_view(found, output.canvas()))
    if output_path is not None:
        saving.save(output_path, found.document, itemgetter("rankings"), lambda: figure(found))
        output.file(output_path, json)
    same = {"similar_to": similar_to, "ask": ask, "target": target, "at": at, "task": task}
    hints.offer(context, "what each head does", "ablate", **same)


def figure(found: "Trust") -> "Figure":
    """What -o draws."""
    from attncli.render.figures.trust import trust_figure

    return trust_figure(found)
