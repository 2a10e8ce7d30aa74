"""`rota server` and `dev`."""
