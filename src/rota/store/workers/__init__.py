"""Workers: read and told what to do, and what they say about themselves."""
