"""Exact nearest neighbours, without holding the matrix queries × keys in memory.

- `search.py`: the search, block by block, and how it treats equal rows and zero rows.
- `products.py`: the products of a block with all keys, in float32 or in 8-bit integers, with error bounds.
- `accelerator.py`: the same search on a GPU.
"""

from relexify.neighbours.search import available_cores, largest_products, nearest, nearest_others, normalise_rows

__all__ = ["available_cores", "largest_products", "nearest", "nearest_others", "normalise_rows"]
