"""What every room uses: records, errors, guarded readers, text for people. It imports no other
room."""
