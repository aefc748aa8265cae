"""The one command, ``provewire``. The only package that may import both sides, each inside its own subcommand."""
