"""Many texts through a model: read from files, reduced to sums or tallies on the way, interrupted and resumed."""
