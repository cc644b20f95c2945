"""Triggers: they carry a ref and follow it."""
