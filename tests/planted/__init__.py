"""Planted defects: `make planted` breaks the product in one way at a time, and shows which tests notice it."""
