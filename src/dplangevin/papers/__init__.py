"""Everything that is about the three papers: analyses, exhibits, claims and the report."""
