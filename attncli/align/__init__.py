"""Sequence to sequence, small and trained: dates as people write them -> ISO dates, to see attention as alignment.

Read in this order: `dates` (what is translated), `characters` (text <-> numbers), `recurrent` and `transformer` (the
networks, built from `attention/`), `checkpoint` (networks <-> files), `train`, `translate` (a text -> its date, with
the weights that led there). The trained weights lie in `weights/`, made by `attncli train-align`.
"""
