"""The report: pages of Markdown, made from results and the texts of `conf/report` alone."""
