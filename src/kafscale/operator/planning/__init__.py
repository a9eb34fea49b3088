"""What should be there, what may change next, and what is told about it. Pure."""
