"""The way to one cluster's API server: log in, ask, watch. Raw JSON objects; no model of Kubernetes in between."""
