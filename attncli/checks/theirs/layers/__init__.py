"""Somebody's encoder or decoder layer."""
