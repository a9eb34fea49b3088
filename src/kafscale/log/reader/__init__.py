"""Reading committed batches that are no longer in memory: blocks, cache, time look-up."""
