"""The objects that a cluster is made of, as manifests. Pure."""
