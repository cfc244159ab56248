from http_server import server
from product import base, here, masked, warm, world
from toy_pairs import beginner, toy

__all__ = ["base", "beginner", "here", "masked", "server", "toy", "warm", "world"]
