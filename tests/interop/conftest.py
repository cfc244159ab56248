from saving import saved

__all__ = ["saved"]
