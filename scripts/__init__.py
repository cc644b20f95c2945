"""What `scripts/demo` and `scripts/test` run; not part of the installed package."""
