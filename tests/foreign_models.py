"""Helpers of tests for models that transformers runs."""

from foreign_checkpoints import TEXT

POSITIONS = 40  # of all small checkpoints but T5's, which has none


def attend(model, text=TEXT, pair=None, **request):
    [record] = model.attend_many([text], [pair], **request)
    return record
