"""The command line. Commands parse, call one admin function and render.

Nothing heavy is imported at the top of these modules: `rota --help` and completion stay quick.

* main.py      the program: its commands, and the output of errors
* session.py   the application, the database and the actor of a command
* loading.py   loads an application from `module:attribute` or a file
* values.py    durations, instants and JSON from text
* output.py    JSON for programs; output.py and times.py tables and times for people
* the others   one noun or program each
"""
