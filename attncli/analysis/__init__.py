"""Compute numbers from records, with NumPy only: a saved record is analysed without a model."""
