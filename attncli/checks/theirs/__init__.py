"""Is what somebody else has written right, and if not, which mistake is it? `checking.check` says so.

`attncli.checks.code` opens and runs it. `calling`: how it is called, what its weights and its masks mean; found out by
names and by trying. `attention`: what it computes, tried beside the formula, and which variant of that it is
(`attncli.attention.mistakes`). `found`: what is told.
"""
