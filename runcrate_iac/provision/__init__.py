"""The wall between Pulumi and pyinfra: pyinfra runs in a child process that only this room starts."""
