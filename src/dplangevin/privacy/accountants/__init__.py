"""One accountant per file: the papers' own compositions, and tight ones."""
