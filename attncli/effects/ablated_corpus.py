"""Ablation over the texts of files, in two rounds: the effects on every text; then, with the order of heads that these
give, what is held of the output on every second one (`attncli.effects.removal`).

What is kept of a shard are rows, one a text, and those of shards are put one after the other. They grow with the number
of texts and are not added up further: intervals come from how the effects vary over texts. A row of the first round
takes 8 bytes for each effect and each slope, 1.3 kB with minilm and one way; of the second round 0.5 kB. A text goes
through the network once for each head and more: a million of them, with 1.3 GB, take days of many cores.

Which texts make the order and which are measured on is counted over the whole corpus, when the first round is done: it
is the same whatever the shards are. As no sums are rounded in between, so is every number.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace

from attncli.analysis.effects import Ablation
from attncli.base.errors import Notice, RequestError
from attncli.corpus.files import whole_files
from attncli.corpus.running import Corpus, Show, Where, go_through, silent
from attncli.corpus.texts import Reading
from attncli.effects.ablated_texts import ORDER, AblatedTexts, Ablating, Asked
from attncli.effects.ablation import ablation, mean_slope
from attncli.effects.removal import ORDERING, curves, orders
from attncli.models.engine import Engine
from attncli.models.tapped import require_tapped


def ablate_files(
    model: Engine,
    files: Sequence[str],
    reading: Reading = Reading(),
    ablating: Ablating = Ablating(),
    where: Where = Where(),
    show: Show = silent,
) -> Ablation:
    """`ablate` over the texts of files ("-" is stdin), folders and addresses.

    reading: how texts stand in them. where: who does it, and where rows are kept, so that nothing is done twice. show:
    is told how far each of both rounds is. The texts of a stream, which can be read once only, are all kept.

    A KeyboardInterrupt ends it early: what there is of the first round by then is `partial`, without curves, and a
    Notice says so. Before any text is done it is an interruption like any other.

    Raises RequestError as reading, `ablate` and `go_through` do, and when there is no text.
    """
    model = require_tapped(model, ablating.asking.which)
    corpus = Corpus(files, reading)
    if any(one.is_stream for one in corpus.inputs):
        where.check(corpus.inputs)
        texts = reading.texts(whole_files(corpus.inputs))
        asked = (one for _, _, one in Asked(model, reading, ablating.asking).of(texts))
        return ablation(model, asked, ablating.ways, ablating.layers, ablating.heads, ablating.asking.mask)
    first = AblatedTexts.of(model, reading, ablating)
    found = go_through(first, corpus, where, show)
    if not len(found.total):
        if found.partial:
            raise KeyboardInterrupt
        raise RequestError(f"no text in {', '.join(files)}: put one text on a line")
    made = first.silenced.ablation(model.info, model.usual_mask(ablating.asking.mask), found.total)
    if len(found.total) > 1 and not found.partial:
        second = first.then(orders(made, mean_slope(found.total["slopes"][ORDERING])), found.total)
        found = go_through(second, corpus, where.inside(f"curves-{second.asked[ORDER][:12]}"), show)
        made = replace(made, curves=curves(second.orders, found.total["held"]))
    if not found.partial:
        return made
    more = "" if where.state is None else "; the same command goes on from here"
    warnings.warn(f"interrupted: these effects are PARTIAL, of {made.texts} texts{more}", Notice, stacklevel=2)
    return replace(made, curves=(), partial=True)
