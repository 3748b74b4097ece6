from hypothesis import settings

# The same examples in every run, nothing written to disk.
settings.register_profile(
    "statistics", deadline=None, derandomize=True, database=None, max_examples=50
)
settings.load_profile("statistics")
