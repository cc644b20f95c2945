"""Reading the output of a run's pods: each line once and in order per replica, whatever breaks on the way."""
