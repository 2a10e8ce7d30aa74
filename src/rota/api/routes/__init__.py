"""One module for each noun: parse, call one function of admin, answer."""
