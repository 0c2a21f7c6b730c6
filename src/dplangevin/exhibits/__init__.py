"""From tidy run files to exhibits: `figures` and `tables` are pure functions, `files` reads and writes,
`style` is the look."""
