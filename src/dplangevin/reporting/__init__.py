"""What all output shares: names in words, looks of figures, and the reader of result files."""
