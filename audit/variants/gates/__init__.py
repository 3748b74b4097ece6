"""One look at a candidate in each module, all pure: novelty (repeats), rules, judge, panel, review; and decide."""
