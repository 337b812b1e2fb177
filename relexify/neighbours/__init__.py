"""Exact nearest neighbours, without the matrix queries × keys in memory.

- `search.py`: the search, block by block, and what equal and zero rows mean for it.
- `products.py`: the products of a block with all keys, in float32 or in 8-bit integers, and how far off they may be.
- `accelerator.py`: the same search on a GPU.
"""

from relexify.neighbours.search import available_cores, largest_products, nearest, nearest_others, normalise_rows

__all__ = ["available_cores", "largest_products", "nearest", "nearest_others", "normalise_rows"]
