"""One module per noun: parse, call one function of admin, answer."""
