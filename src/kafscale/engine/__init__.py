"""What a broker does, whichever door a client came in by."""
