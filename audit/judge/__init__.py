"""Judge the cells of a panel, and build the report. All audits share this code."""
