"""Define the configuration of a run, and resolve the words of a command to pinned values."""
