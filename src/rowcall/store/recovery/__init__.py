"""Workers that register, and jobs of lost workers."""
