"""What a map is called under each mask."""

CAPTIONS = {"none": "unmasked", "causal": "causal", "padding": "padding"}
