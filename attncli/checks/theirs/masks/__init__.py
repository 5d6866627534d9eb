"""Somebody's function that gives a mask."""
