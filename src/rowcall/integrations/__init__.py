"""Rowcall in web frameworks: one folder each."""
