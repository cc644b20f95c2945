"""The life of a run on a cluster: submit, find, look, watch, stop, delete, and what is left to do at its end."""
