"""Grade contrasts, in the same way for every audit (pure)."""
