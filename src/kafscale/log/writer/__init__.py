"""One log, opened for writing: appending, flushing, and what is committed."""
