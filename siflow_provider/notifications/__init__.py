"""Alerts to people."""
