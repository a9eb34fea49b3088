"""The runner: one long-running application that keeps the tables and logs of a bucket in shape.

planner.py says what is due, and which runner does it; runner.py does it, with tasks.py for each
kind of work. membership.py knows which runners are alive. status.py and series.py show how it goes.
"""
