"""Commands about runs: single runs, lists, filters; waiting for them; error groups."""
