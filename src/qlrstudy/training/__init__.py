"""One run, from its names to its records."""
