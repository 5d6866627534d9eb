"""Laws of attention, checked on any model by its behaviour: change what must not matter, and see which outputs move.

`opening` finds or makes the model, `model` runs it and records the vectors of its heads, `laws` has the laws, checks
them on every backend, and describes the results.
"""
