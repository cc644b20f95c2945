"""Measurements beside the peers, each printed by a command."""
