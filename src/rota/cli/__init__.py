"""The command line. Commands parse, call one admin function and render.

Nothing heavy is imported at the top of these modules: `rota --help` and completion stay quick.

* main.py      the program: its commands, and errors on their way out
* session.py   which application and which database a command is about, and who asks
* loading.py   from `module:attribute` or a file to an application
* values.py    durations, instants and JSON from text
* output.py    JSON for programs; output.py and times.py tables and times for people
* the others   one noun or program each
"""
