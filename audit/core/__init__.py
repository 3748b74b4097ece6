"""Hold what all other packages use: records, errors, guarded readers, and text for people.

This package imports no other package of the program.
"""
