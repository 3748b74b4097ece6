"""Judge the cells of a panel, and build the report, by the same code for all audits."""
