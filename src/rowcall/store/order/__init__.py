"""Jobs in order, and fair turns."""
