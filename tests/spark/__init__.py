"""The pipeline on real Spark."""
