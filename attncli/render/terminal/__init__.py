"""Records and results in the terminal: lines of rich text and tables, fitted to a `Canvas`; a module a view."""
