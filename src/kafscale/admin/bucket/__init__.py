"""Questions that the bucket answers without a broker."""
