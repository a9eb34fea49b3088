"""What topics hold and cost: figures from manifests and samples, and the page that shows them."""
