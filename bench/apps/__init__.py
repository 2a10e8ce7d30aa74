"""Applications as a user would write them, for the workers of the bench."""
