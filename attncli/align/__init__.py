"""Translate dates in any notation to ISO dates with small trained networks, whose attention is an alignment.

Read in this order: `characters` (text <-> numbers), `networks` (built from `attention/`), `checkpoint` (their files, in
`weights/`), `translate` (a text -> its date and its attention). `tests/train_align.py` in the repository trains them.
"""
