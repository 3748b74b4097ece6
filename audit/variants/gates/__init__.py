"""One look at a candidate in each module, all pure: novelty (repeats, distance), rules, judge, panel, review, decide."""
