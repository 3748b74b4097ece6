"""Determine whether a run uses a registry or sends notices. This module has no slow imports."""

import os


def wanted(registry: str | None) -> bool:
    """Return whether `registry=`, AUDIT_REGISTRY or AUDIT_NOTIFY is set."""
    return bool(registry or os.environ.get("AUDIT_REGISTRY") or os.environ.get("AUDIT_NOTIFY"))
