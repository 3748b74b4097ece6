"""Read the logs of other programs. Each format has its own module."""
