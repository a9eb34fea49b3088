"""What the console notices by itself: metrics pages, read again and again, and their history."""
