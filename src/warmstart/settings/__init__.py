"""Every setting, as frozen dataclasses; TOML and overrides in."""
