"""What only concerns a paper: its published tables, read again and checked against themselves (`audit reanalyze`)."""
