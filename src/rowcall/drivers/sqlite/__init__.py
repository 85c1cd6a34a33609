"""Run plans on a SQLite file: connections, the write gate, the identity of the file."""
