"""What people who run a broker see of it and need from it: output, pages, limits."""
