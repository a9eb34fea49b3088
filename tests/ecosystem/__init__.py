"""What people run on Kafka, unmodified and with default settings, at our broker.

Here: one trial per program (test_*.py), the list of them (trials.py), the page (page.py).
Next door: clients (tests/e2e), other projects' test suites (tests/compat).
"""
