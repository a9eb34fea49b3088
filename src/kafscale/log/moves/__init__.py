"""Moving a lane to another log, and ending the logs of a deleted topic."""
