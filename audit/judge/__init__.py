"""The second half of every audit, written once: how cells are judged over a panel, and how a report is made of them."""
