"""What goes in and out, as OpenAPI describes it."""
