"""An audit of another package: does it matter whether a question is shouted? All that one has to
bring, and no more."""
