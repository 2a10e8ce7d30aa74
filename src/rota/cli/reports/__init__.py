"""Reports: `rota top`, `stats`, `trend`, `attention`, `why`, `find`, `audit`, `logs`."""
