"""The program on evaluations that nobody here made: `make external`."""
