"""Check the progress in lines."""

from attncli.base import progress
from attncli.base.progress import Lines

SECONDS = 30


def test_a_line_comes_at_most_every_thirty_seconds_over_all_steps(monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "SECONDS", SECONDS)
    show = Lines(said.append)

    with show(2, "texts") as advance:
        now[0] = SECONDS - 1
        advance()
        assert said == []
        now[0] = SECONDS
        advance()
    with show(4000, "heads") as advance:  # the time goes on from one work to the next
        advance(1234)
        now[0] = 2 * SECONDS
        advance()
        advance()
    with show(None, "steps") as advance:
        now[0] = 3 * SECONDS
        advance()
        now[0] = 4 * SECONDS
        advance(text="epoch 7, loss 0.5")

    assert said == ["texts: 2 of 2", "heads: 1,235 of 4,000", "steps: 1", "epoch 7, loss 0.5"]
