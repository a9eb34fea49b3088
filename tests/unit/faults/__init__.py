"""The parts of the fault harness that need no processes."""
