"""One file per API, or per family of APIs: its key, the versions we read, its tables."""
