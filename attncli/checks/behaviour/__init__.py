"""Laws of attention, measured on any model by what it does: change what must not matter, and see which outputs move.

`subject` runs a model and records what its heads give, `laws` has the laws, `examine` puts them to every backend,
`opening` finds or makes the model, `report` says what came out.
"""
