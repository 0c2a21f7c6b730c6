"""Accountants, one in each file: the papers' own compositions, and tight ones."""
