"""Sensors: wait for quota, or for a run that somebody else started."""
