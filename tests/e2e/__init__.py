"""Real clients against real processes."""
