"""Commands about the database: `rota migrate`, `grant`, `psql`, `retention`, `doctor` and
`bench`."""
