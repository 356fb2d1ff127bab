"""Kinetoscope: says where the time of a PyTorch step goes, and what would make it shorter.

Importing this package never imports torch; only `kinetoscope.torch` does, and only when asked.
Nothing is computed in Python: this package hooks PyTorch and hands over what it recorded.
"""

__version__ = "0.1.0"
