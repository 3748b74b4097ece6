"""A small finished sweep with its report, and keys of three people."""

from governed import built, changed, keys, other, overridden, run_dir

__all__ = ["built", "changed", "keys", "other", "overridden", "run_dir"]
