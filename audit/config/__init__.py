"""Define the configuration of a run, and resolve the arguments of a command to pinned values."""
