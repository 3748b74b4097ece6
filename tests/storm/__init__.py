"""`make storm`: kills at random moments, and what is left of a run afterwards. Never a test; a
short one is."""
