"""The command line. The module of a command is imported when it is used."""
