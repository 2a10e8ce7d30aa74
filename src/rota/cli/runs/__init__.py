"""`rota runs`, `bulk`, `views` and `errors`."""
