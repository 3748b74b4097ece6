"""Judge cells over a panel, and build the report: what every audit shares after its answers are
stored."""
