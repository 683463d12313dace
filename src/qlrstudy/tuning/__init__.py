"""The search for an algorithm's settings."""
