"""Tests of Kafscale."""
