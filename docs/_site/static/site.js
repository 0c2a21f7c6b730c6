// A browser does not let a page that is a file read others, as Sphinx's search does for the lines below its results.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; // arrow keys scroll it
  }
  for (const list of document.querySelectorAll(".citation-list")) list.removeAttribute("role"); // its entries have others
});
