"""Define the configuration of a run: keys, words of a command, and the pinned values they stand for."""
