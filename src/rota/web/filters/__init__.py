"""The filters of lists: what an address, a form or a person says, read in one way for all."""
