"""The commands, a file for each group of them: `add_parsers` adds its own."""
