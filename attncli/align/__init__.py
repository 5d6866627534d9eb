"""Sequence to sequence, small and trained: dates as people write them -> ISO dates, to see attention as alignment.

Read in this order: `characters` (text <-> numbers), `formats` (how dates are written), `dates` and `no_dates` (what is
translated), `recurrent` and `transformer` (the networks, built from `attention/`), `checkpoint` (networks <-> files),
`translate` (a text -> its date, with the weights that led there), `measure`, `train`. The trained weights lie in
`weights/`, made by `attncli train-align`.
"""
