"""Notifications that something may be due. Never needed for correctness: without any, a worker is only slower."""
