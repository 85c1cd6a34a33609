"""Rowcall in frameworks: one folder each. Users import `rowcall.django`, `rowcall.sqlalchemy` and so on."""
