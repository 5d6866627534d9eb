"""Many texts through a model: read in shards from files of any kind, reduced to sums or tallies that add up."""
