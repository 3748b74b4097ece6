"""Export a run's answers, and the items of an audit, in the formats of other tools."""
