"""Many runs at once, on the workers of a Ray."""
