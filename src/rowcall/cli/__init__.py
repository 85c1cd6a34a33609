"""The command line: each command a module of its own, imported when it is asked for."""
