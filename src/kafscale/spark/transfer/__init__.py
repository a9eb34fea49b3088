"""What jobs share that carry records from topic to topic or from cluster to cluster.

foreign.py reads other Kafka clusters, origins.py finds where records came from, rewriter.py makes
batches anew at given offsets, offset_map.py translates the committed offsets of groups.
"""
