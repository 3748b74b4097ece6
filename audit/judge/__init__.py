"""Judge the cells of a panel and build the report, in the same way for all audits."""
