"""Templates: jinja2, where a missing value is an error and never an empty string.

The filter ``quote`` makes a word for the shell of any text.
"""

from __future__ import annotations

import shlex
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runcrate_iac import paths


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - configuration files, not HTML
        loader=FileSystemLoader(paths.bundled("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quote"] = shlex.quote
    return environment


def render(template: str, **values: object) -> str:
    """The text of ``templates/<template>`` with ``values``.

    Raises :class:`jinja2.UndefinedError` for a name the template uses and the caller did not give.
    """
    return _environment().get_template(template).render(**values)
