"""What the console answers: one struct for each thing, and refusals."""
