"""The cases, one module for each subject."""
