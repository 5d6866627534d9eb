"""Many texts: read from files of any kind in shards, and reduced to sums that add up."""
