"""Deliver jobs to targets, and receive them."""
