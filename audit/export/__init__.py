"""Export a run's answers, and the items of an audit, for other people's tools."""
