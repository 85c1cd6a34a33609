"""Durable steps of handlers, and the signals that they wait for."""
