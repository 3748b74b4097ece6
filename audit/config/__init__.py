"""The configuration of a run: its keys, the words of a command, and the pinned values that they
stand for."""
