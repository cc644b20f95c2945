"""The task form as data."""
