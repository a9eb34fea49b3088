"""What hostile or broken clients send, and what it costs: nothing to other clients."""
