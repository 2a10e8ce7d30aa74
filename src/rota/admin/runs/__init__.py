"""Commands about runs: one, many, by filter; waiting for them; errors by kind."""
