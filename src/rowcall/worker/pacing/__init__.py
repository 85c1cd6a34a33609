"""What is worth its own lane on one database, behind one small protocol."""
