"""Records between the two formats: Fluvio's batches and those of the log."""
