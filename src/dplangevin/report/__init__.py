"""The report: a static site of HTML pages that needs no server and no network, made from results alone.

`site.pages` gives every file of it as bytes; texts that are written by hand are in `conf/report`.
"""
