"""What a request must be authorized for, and taking out what the client may not do."""
