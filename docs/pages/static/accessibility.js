addEventListener("load", () => {
  // What scrolls by itself can be reached by keyboard.
  for (const part of document.querySelectorAll("article table.docutils, article pre"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  // The theme's headings say no level, and its two side bars no name.
  for (const caption of document.querySelectorAll(".sidebar-tree .caption")) caption.ariaLevel = "2";
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
});
