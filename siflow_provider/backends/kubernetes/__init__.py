"""PyTorchJob, RayJob and Kueue on a Kubernetes cluster."""
