"""The files of the page: groups and their timelines in a browser, for the admin address and for the report of the pipeline."""
