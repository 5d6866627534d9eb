"""Is what somebody else has written right, and if not, which mistake is it? `checking.check` says so.

`subjects`: what is handed in, opened and run in a process of its own. `calling`: how it is called, what its weights and
its masks mean; found out by names and by trying. `attention`, `layers`, `masks`, `positions`: what it computes, tried
beside the formula, and which variant of that it is (`attncli.attention.mistakes`). `found`: what is told.
"""
