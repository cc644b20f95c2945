"""What `doctor` looks at on a cluster: what it serves, what the login may do, and what the catalog names."""
