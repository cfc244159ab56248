from product import base, here, masked, warm, world

__all__ = ["base", "here", "masked", "warm", "world"]
