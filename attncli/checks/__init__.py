"""Run a model, or somebody's code, to find out whether something is true, how long it takes, and how much memory.

`passes` and `tolerance` are what `compare` measures with; `machine` measures time.
"""
