"""Laws of attention, checked on any model by its behaviour: change what must not matter, and see which outputs move.

`opening` finds or makes the model, `small` makes small ones, `subject` runs it and records the vectors of its heads,
`laws` has the laws and checks them on every backend, `report` describes the results.
"""
