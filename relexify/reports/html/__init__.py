"""Reports as one HTML file each, which opens from disk without a network.

    report.py      `report`: write the report of a model folder or of a comparison
    model.py       what the report of a model says
    origins.py     where the embeddings of a model come from
    comparison.py  what the report of a comparison says
    atlas.py       every token with its sources, neighbours and position on a map, compressed
    map.py         positions of tokens on a map, from their nearest neighbours
    curves.py      training curves in SVG
    elements.py    tables, bars, figures
    page.py        the page itself: template.html, style.css, script.js, atlas.html

Texts come from models, corpora and tokenizers, so everything that is not markup of this package is escaped.
"""

from relexify.reports.html.report import report

__all__ = ["report"]
