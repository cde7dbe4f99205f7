"""Stand-ins for the two Pulumi plugins that no package registry carries: closed networks only (docs/engine.md)."""
