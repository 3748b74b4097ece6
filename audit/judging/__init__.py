"""Grade contrasts in the same way for every audit, and hold the verdict as a typed document
(pure)."""
