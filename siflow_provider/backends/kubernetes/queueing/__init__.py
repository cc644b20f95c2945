"""Queues and quota on Kubernetes: whether a task fits, where it stands in its queue, which queues a cluster has."""
