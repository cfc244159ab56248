from product import base, here, warm, world

__all__ = ["base", "here", "warm", "world"]
