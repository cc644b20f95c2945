"""The embedded backend: real processes of this machine, supervised, queued and metered."""
