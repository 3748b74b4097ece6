"""How contrasts are graded, the same for every audit (pure)."""
