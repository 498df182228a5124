"""Reports: a pure function of the trial journal, as HTML, JSON and Markdown."""
