"""The `platform` backend: tasks through SiFlow's own REST API."""
