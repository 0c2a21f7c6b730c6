"""One module per data set: raw files (or a generator) to a `Dataset`."""
