"""The documentation site: the pages of docs/, and pages made from what the code declares."""
