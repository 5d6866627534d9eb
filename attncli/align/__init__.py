"""Translate dates as people write them to ISO dates, with small trained networks whose attention is an alignment.

Read in this order: `characters` (text <-> numbers), `dates` (texts that are dates, and texts that are none),
`networks` (built from `attention/`), `checkpoint` (networks <-> files), `translate` (a text -> its date and its
attention), `train`. `attncli train-align` makes weights; those in `weights/` come with the package.
"""
