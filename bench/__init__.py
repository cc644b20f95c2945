"""Measurements, each printed by a command; where a peer does the same, beside it."""
