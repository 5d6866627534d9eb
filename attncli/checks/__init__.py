"""Run a model, or somebody's code, to find out whether something is true, how long it takes, and how much memory.

`tolerance` says what rounding explains, `machine` sets the number of threads.
"""
