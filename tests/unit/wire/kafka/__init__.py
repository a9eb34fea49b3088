"""Tests of the Kafka codec."""
