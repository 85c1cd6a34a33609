"""Litestar: `rowcall.litestar`."""
