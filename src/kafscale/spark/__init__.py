"""The data pipeline: Spark on the objects of a bucket, without a broker.

Here: the source that turns topics into rows, the jobs, and what they share.
Next door: the objects' formats (log/, records/).
Never here: engine, gateways; a job does not run a broker inside.
"""
