"""Log lines: searched, followed, counted."""
