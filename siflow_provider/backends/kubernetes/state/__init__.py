"""From Kubernetes objects, as plain dicts, to the core's `Status`. Pure: no call, no clock, no memory."""
