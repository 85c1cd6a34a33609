"""What is made of the figures: a table, pictures, a page."""
