"""What every room uses: clock, times, text, URLs, histograms."""
