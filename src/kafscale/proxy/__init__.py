"""`kafscale proxy`: virtual partitions before an Apache Kafka that exists already.

Clients see V partitions of a topic; the cluster behind has P. What is new here is a log whose
bytes lie in another Kafka's partition; how many partitions share one is `virtual`'s arithmetic.

Here: `state` (what counts), `upstream` (the cluster behind), `coordination` (what proxies agree
on), `access` (what clients may do), `partitions` (appending and reading), `apis` (requests),
`connections` (clients), and the process on top.
"""
