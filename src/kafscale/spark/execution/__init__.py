"""How the work of a job runs: in this process or on Spark, once or resumed after a crash.

units.py runs pieces of work on Spark, here_or_spark.py keeps little work in this process,
job_notes.py keeps results of finished steps in the bucket.
"""
