"""The table of faults in the documentation, drawn from the model."""

from __future__ import annotations

import inspect

from pydantic.fields import FieldInfo

from runcrate_iac.model.faults import KINDS

EVERYWHERE = ("node", "times")


def rows() -> list[str]:
    """One row for each kind of fault, under their heading: its name, what happens, and its own fields."""
    table = ["| `fault` | what happens | its fields |", "| --- | --- | --- |"]
    for name, kind in KINDS.items():
        own = {key: field for key, field in kind.model_fields.items() if key != "fault" and key not in EVERYWHERE}
        needed = {key: field for key, field in kind.model_fields.items() if key == "node" and field.is_required()}
        fields = ", ".join(_field(key, field) for key, field in {**needed, **own}.items()) or "–"
        table.append(f"| `{name}` | {inspect.getdoc(kind)} | {fields} |")
    return table


def _field(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return f"`{name}`"
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{name}: {default}`"


if __name__ == "__main__":
    print("\n".join(rows()))
