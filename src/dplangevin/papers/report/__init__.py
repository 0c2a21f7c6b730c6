"""The report: a static site of HTML pages, made from results alone.

The pages need no server and no network. `site.pages` returns every file as bytes. `conf/report` has the texts
that are written by hand.
"""
