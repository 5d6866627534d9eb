"""What changes when attention is changed: ablation, cuts, patches, and how much that says."""
