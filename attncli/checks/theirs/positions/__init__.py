"""Somebody's positional encoding."""
