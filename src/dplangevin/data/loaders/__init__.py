"""Raw files (or a generator) to a `Dataset`: one module per source, and `table` for any table of numbers."""
