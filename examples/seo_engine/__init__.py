"""A small engine that scores pages for search engines: a transformer that is trained here.

Start at engine.py; README.md has the map.
"""
