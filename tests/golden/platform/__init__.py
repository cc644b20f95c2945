"""Create bodies for the platform, kept as files."""
