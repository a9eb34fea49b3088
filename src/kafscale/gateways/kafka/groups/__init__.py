"""What the APIs of consumer groups share, and the bytes that members write for each other."""
