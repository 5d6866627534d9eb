"""Somebody's attention: what it computes, tried on inputs of every kind, and which mistake it is."""
