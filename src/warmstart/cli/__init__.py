"""The command line: parse, make one call, print; no logic."""
