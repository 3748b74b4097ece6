"""What is attacked: a small finished sweep with its report, and the keys of three people."""

from governed import built, keys, other, overridden, run_dir

__all__ = ["built", "keys", "other", "overridden", "run_dir"]
