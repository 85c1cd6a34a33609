"""Fairness and order between the values of an argument."""
