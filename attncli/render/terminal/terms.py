"""What a head's scores are the sum of, in the terminal: a signed map of each part, blue below 0 and red above."""

from rich.text import Text

from attncli.analysis.terms import SCORE, score_terms
from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.terminal.one_head import query_labels
from attncli.report.canvas import Canvas
from attncli.report.terminal import largest, signed_map


def terms_view(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The score and its parts, each with its own scale from the number that is largest in size; hidden keys are empty.

    Raises RequestError as `score_terms` does.
    """
    parts = score_terms(record)
    labels = query_labels(record.tokens, canvas)
    names = [printable(name) for name in parts]
    lines = [Text(f"{SCORE} = {' + '.join(names[1:])}", style=canvas.strong)]
    for name, part in zip(names, parts.values(), strict=True):
        most = largest(part)
        lines += [Text(), Text(f"{name}  from -{most:.2f} to {most:.2f}", style=canvas.strong)]
        lines += signed_map(part, most, labels, canvas)
    return lines
