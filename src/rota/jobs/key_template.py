"""The key of a job's runs as a template over its arguments: `key="invoice:{invoice_id}"`.

The database fills it, so that every interface gets the same key; here it is only checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.]*)\}")


def check_key(name: str, template: str, arguments: Sequence[str]) -> None:
    """Raise ValueError for a brace that does not enclose a name, or a name that is not an
    argument."""
    if set(_FIELD.sub("", template)) & set("{}"):
        raise ValueError(
            f"{name} {template!r} has a brace that does not enclose the name of an argument;"
            ' write for example "invoice:{invoice_id}"'
        )
    for field in _FIELD.findall(template):
        first = field.partition(".")[0]
        if first not in arguments:
            near = get_close_matches(first, arguments, 1)
            known = f"did you mean {near[0]}?" if near else f"the job takes {', '.join(arguments)}"
            raise ValueError(
                f"{name} {template!r} names {first}, which is not an argument; {known}"
            )
