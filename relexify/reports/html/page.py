"""A page: sections in the template, with style, script and data inside the file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from relexify.version import __version__

__all__ = ["REPORT", "Section", "page_file", "render"]

REPORT = "report.html"
"""The name of a report in an output folder."""


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        name: One word in lower case, the name of its anchor and of the link to it.
        title: Its heading.
        body: Its content in HTML.
    """

    name: str
    title: str
    body: str


def render(title: str, subtitle: str, sections: Sequence[Section], *, data: bytes = b"") -> str:
    """Return a page that needs nothing else.

    Args:
        title: The title of the page.
        subtitle: One line below it.
        sections: Its sections; those without a body are left out.
        data: The packed token atlas, if a section shows it.
    """
    shown = [section for section in sections if section.body]
    parts = {
        "TITLE": escape(title),
        "SUBTITLE": escape(subtitle),
        "LINKS": "".join(f'<a href="#{section.name}">{section.name.capitalize()}</a>' for section in shown),
        "SECTIONS": "\n".join(
            f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
            f'<h2 id="{section.name}-title">{escape(section.title)}</h2>{section.body}</section>'
            for section in shown
        ),
        "VERSION": escape(__version__),
        "STYLE": page_file("style.css"),
        "SCRIPT": page_file("script.js"),
        "DATA": base64.b64encode(data).decode(),
    }
    pieces = page_file("template.html").split("%%")  # text and names in turn, so that no content is searched for names
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def page_file(name: str) -> str:
    """Return the content of a file of this package, such as `style.css`."""
    return files("relexify.reports.html").joinpath(name).read_text(encoding="utf-8")
