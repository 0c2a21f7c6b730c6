// A browser does not let a page that is a file read others, as Sphinx's search does for the lines below its results.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
