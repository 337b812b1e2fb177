"""What a browser does with a report: no requests, no errors, keys instead of a mouse, narrow screens, all scripts."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from itertools import pairwise
from urllib.parse import quote

import numpy as np
import pytest

import relexify as rx
from relexify.mixture import Origin
from relexify.reports.html.atlas import readable_token
from relexify.reports.html.page import Section, page_file, render
from tests.reports.html.browser import browser, needs_browser
from tests.reports.html.examples import big_atlas

pytestmark = needs_browser

POLICY = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>")
WORDS = [" na", "shika", " habari", " kitabu", *(f" ne{letter}no" for letter in "abcdefghijklmn")]


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quiet(tab):
    tab.show_as()
    tab.requests.clear()
    tab.messages.clear()


def atlas_page(tokens, weights, tmp_path, counts=None):
    """A page with the atlas of a few tokens, each made from two sources, or `counts`, with weights in thousandths."""
    counts = np.array(counts or [2] * len(tokens))
    shown = [weight for count, row in zip(counts, weights, strict=True) for weight in row[:count]]
    atlas = replace(
        big_atlas(len(tokens)),
        tokens=tokens,
        origins=np.full(len(tokens), Origin.MIXED),
        source_counts=counts,
        source_ids=np.arange(len(shown)) % len(tokens),
        source_weights=np.array(shown),
        other_counts=np.array([sum(weight > 0 for weight in row[2:]) for row in weights]),
        other_weights=np.array([sum(row[2:]) for row in weights]),
    )
    page = tmp_path / "page.html"
    page.write_text(render("words", "", [Section("atlas", "Atlas", page_file("atlas.html"))], data=atlas.pack()))
    return page


def use(tab, page):
    """Do what a reader does: search, choose, move the map, change the colours."""
    tab.open(page)
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press("a", "ArrowDown", "Enter", "Escape")
    tab.evaluate("document.querySelectorAll('.zoom button').forEach((button) => button.click())")
    tab.evaluate("document.getElementById('theme').click()")
    tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")


def test_a_report_requests_nothing_and_logs_nothing_while_it_is_used(tab, folder):
    use(tab, folder / "report.html")
    assert (tab.requests, tab.messages) == ([], [])


@pytest.mark.parametrize(
    "reference",
    [
        '<img src="https://example.invalid/pixel.png" alt="">',
        "<style>@font-face { font-family: x; src: url(https://example.invalid/x); } p { font: 1em x; }</style>",
        "<style>@import 'https://example.invalid/style.css';</style>",
        "<script>document.getElementById('theme').onclick = () => fetch('https://example.invalid/');</script>",
        "<script src='other.js'></script>",
    ],
)
def test_a_request_of_a_report_would_be_noticed_and_is_blocked(reference, tab, folder, tmp_path):
    page = (folder / "report.html").read_text().replace("</body>", f"{reference}</body>")
    (tmp_path / "blocked.html").write_text(page)
    use(tab, tmp_path / "blocked.html")
    assert any("Content Security Policy" in message for message in tab.messages)
    tab.requests.clear()
    (tmp_path / "open.html").write_text(POLICY.sub("", page))
    use(tab, tmp_path / "open.html")
    assert len(tab.requests) == 1


def test_a_link_to_a_token_shows_its_sources(tab, folder):
    mixture = rx.Mixture.load(folder / "mixture.safetensors")
    mixed = next(id for id in range(349, 0, -1) if len(mixture.sources(id)) > 1)
    token = readable_token(mixture.target_tokens[mixed], mixture.target_spelling).strip()
    tab.open(folder / "report.html", f"#token/{quote(token)}")
    assert tab.evaluate("document.querySelector('#atlas-detail h3').textContent.replace('·', '')") == token
    shown = tab.evaluate("document.querySelectorAll('#atlas-detail .weight:not(.others)').length")
    assert shown == min(5, len(mixture.sources(mixed)))
    assert "Nearest target tokens" in tab.evaluate("document.getElementById('atlas-detail').textContent")


def test_the_atlas_opens_on_a_whole_word_and_explains_the_colours_of_the_map(tab, tmp_path):
    weights = [[900, 100], [600, 400], [400, 300], [700, 300], *[[1000, 0]] * 14]
    tab.open(atlas_page(WORDS, weights, tmp_path))
    # Neither a short word, nor a part of a word, nor one whose sources are unclear.
    assert tab.evaluate("document.querySelector('#atlas-detail h3').textContent") == "·kitabu"
    legend = tab.evaluate("[...document.querySelectorAll('#atlas-legend span')].map((each) => each.textContent)")
    assert legend == ["made from one source token", "mostly from one", "from several"]
    assert "near each other if" in tab.evaluate("document.getElementById('atlas-meaning').textContent")
    assert not tab.messages


def test_the_atlas_sums_up_the_sources_that_it_does_not_list(tab, tmp_path):
    weights = [[500, 200, 200, 100], *[[600, 400]] * (len(WORDS) - 1)]
    tab.open(atlas_page(WORDS, weights, tmp_path))
    last = "[...document.querySelectorAll('#atlas-detail .weight')].at(-1)"
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press(*WORDS[0].strip(), "Enter")
    assert tab.evaluate(f"{last}.textContent") == "2 more0.300"
    assert not tab.evaluate(f"{last}.querySelector('i')"), "a bar, which would be compared with those of one token"
    tab.press("Escape", *WORDS[1].strip(), "Enter")
    assert tab.evaluate(f"{last}.textContent").endswith("0.400")


def test_a_search_that_finds_many_tokens_says_how_many_are_listed(tab, tmp_path):
    words = [f" kitabu{number}" for number in range(100)]
    tab.open(atlas_page(words, [[600, 400]] * len(words), tmp_path))
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press(*"kit")
    status = "document.getElementById('atlas-status').textContent"
    assert tab.evaluate(status) == "60 of 100 tokens are listed."
    assert tab.evaluate("document.querySelectorAll('#atlas-results li').length") == 60
    tab.press(*"abu99")
    assert tab.evaluate(status) == ""


def test_the_atlas_of_an_extended_vocabulary_opens_on_an_added_word(tab, tmp_path):
    weights = [*[[1000, 0]] * 17, [600, 400]]
    atlas = atlas_page(WORDS, weights, tmp_path, counts=[1] * 17 + [2])
    tab.open(atlas)
    assert tab.evaluate("document.querySelector('#atlas-detail h3').textContent") == "·nenno"


def test_everything_can_be_done_with_the_keyboard(tab, folder):
    tab.open(folder / "report.html")
    reached = []
    for _ in range(80):
        tab.press("Tab")
        reached.append(tab.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        if reached[-1] == "atlas-map":
            break
    assert reached[:3] == ["Skip to the content", "theme", "Summary"]
    assert reached.index("atlas-query") < reached.index("atlas-map")
    position = "document.querySelector('#atlas-results [aria-selected=true] small')?.textContent"
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press("a")
    first = tab.evaluate(position)
    tab.press("ArrowDown")
    second = tab.evaluate(position)
    assert first != second
    tab.press("ArrowUp")
    assert tab.evaluate(position) == first
    tab.press("ArrowDown", "Enter")
    assert f"id {second} " in tab.evaluate("document.querySelector('#atlas-detail p').textContent")
    tab.press("Escape")
    assert tab.evaluate("document.getElementById('atlas-query').value") == ""
    assert tab.evaluate("document.querySelectorAll('#atlas-results li').length") == 0
    picture = "document.getElementById('atlas-map').toDataURL()"
    pause = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))"
    tab.evaluate(f"document.getElementById('atlas-map').focus(); {pause}")
    pictures = [tab.evaluate(picture)]
    for key in ("+", "ArrowLeft", "-", "0"):
        tab.press(key)
        tab.evaluate(pause)
        pictures.append(tab.evaluate(picture))
    assert all(one != other for one, other in pairwise(pictures))


SHOWN = "document.querySelector('#atlas-detail h3').textContent"
IS_ON_SCREEN = """(() => {
  const box = document.getElementById("atlas-status").getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
})()"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_search_for_what_no_token_contains_says_so_beside_the_field(width, tab, tmp_path):
    tab.show_as(width=width, height=844)
    tab.open(atlas_page(WORDS, [[600, 400]] * len(WORDS), tmp_path))
    tab.evaluate("document.getElementById('atlas-query').focus()")
    assert tab.evaluate("document.getElementById('atlas-detail').checkVisibility()")
    tab.press(*"zzqq")
    status = "document.getElementById('atlas-status')"
    assert tab.evaluate(f"{status}.textContent").startswith("No token contains this")
    assert tab.evaluate(f"{status}.getAttribute('aria-live')") == "polite"
    assert tab.evaluate(IS_ON_SCREEN)
    bottom = tab.evaluate("document.getElementById('atlas-query').getBoundingClientRect().bottom")
    assert tab.evaluate(f"{status}.getBoundingClientRect().top") - bottom < 40
    # The last token would seem to be the answer.
    assert not tab.evaluate("document.getElementById('atlas-detail').checkVisibility()")
    tab.press("Escape")
    assert tab.evaluate(f"{status}.textContent") == ""
    assert tab.evaluate("document.getElementById('atlas-detail').checkVisibility()")


def test_a_token_is_found_as_the_page_shows_it_with_a_dot_for_its_space(tab, tmp_path):
    tab.open(atlas_page(WORDS, [[600, 400]] * len(WORDS), tmp_path))
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press(*"·kitabu", "Enter")
    assert tab.evaluate("document.getElementById('atlas-status').textContent") == ""
    assert tab.evaluate(SHOWN) == "·kitabu"


def test_tab_leads_from_a_typed_token_to_its_own_neighbours(tab, tmp_path):
    tab.open(atlas_page(WORDS, [[600, 400]] * len(WORDS), tmp_path))
    before = tab.evaluate(SHOWN)
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press(*"kitabu", "Tab")
    assert before != "·kitabu"
    assert tab.evaluate(SHOWN) == "·kitabu"
    assert tab.evaluate("document.activeElement === document.querySelector('#atlas-detail button')")
    neighbour = tab.evaluate("document.activeElement.textContent")
    tab.evaluate("document.activeElement.click()")
    assert tab.evaluate(SHOWN) == neighbour
    # What was typed was shown already: to pass the field once more shows nothing else.
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press("Tab")
    assert tab.evaluate(SHOWN) == neighbour


def test_a_chosen_token_is_in_the_address_which_leads_to_it(tab, tmp_path):
    tokens = [" Shika", *WORDS, "habari", " 1/2", "  ", " ابتث"]
    page = atlas_page(tokens, [[600, 400]] * len(tokens), tmp_path)
    tab.open(page)
    assert tab.evaluate("location.hash") == ""
    length = tab.evaluate("history.length")
    tab.evaluate("document.getElementById('atlas-query').focus()")
    tab.press(*"shika", "Enter")
    assert tab.evaluate("location.hash") == "#token/shika"
    tab.press("Escape", *"habari", "ArrowDown", "Enter")  # not the first of two with this text
    assert tab.evaluate("location.hash") == f"#token/habari/{tokens.index('habari')}"
    assert tab.evaluate("history.length") == length
    for id, token in enumerate(tokens):
        tab.evaluate(f"location.hash = '#token/{quote(token.strip(), safe='')}/{id}'")
        tab.wait_for(f"document.querySelector('#atlas-detail p').textContent.startsWith('id {id} ')")
    tab.evaluate("location.hash = '#token/1/2'")  # also as one would write it
    tab.wait_for(f"{SHOWN} === '·1/2'")
    assert not tab.messages


def test_a_page_scrolls_past_the_map_unless_the_map_was_chosen(tab, folder):
    tab.open(folder / "report.html")
    rolled = """(() => {
      const wheel = new WheelEvent("wheel", { deltaY: -100, cancelable: true });
      document.getElementById("atlas-map").dispatchEvent(wheel);
      return wheel.defaultPrevented;
    })()"""
    assert not tab.evaluate(rolled)
    tab.evaluate("document.getElementById('atlas-map').focus()")
    assert tab.evaluate(rolled)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_is_wider_than_the_screen_and_all_links_are_on_it(width, dark, tab, folder):
    tab.show_as(width=width, dark=dark)
    tab.open(folder / "report.html")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    edges = "[...document.querySelectorAll('nav a')].map((link) => link.getBoundingClientRect().right)"
    right = max(tab.evaluate(edges))
    assert right <= width
    assert tab.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")


@pytest.mark.parametrize(("word", "direction"), [(" مەكتەپ", "rtl"), ("学校", "ltr"), (" Schule", "ltr")])
def test_tokens_are_written_in_the_direction_of_their_script(word, direction, tab, tmp_path):
    tokens = [word, *(f"{word}{letter}" for letter in "بپتجچخدرزژسشغفقك")]
    tab.open(atlas_page(tokens, [[600, 400]] * len(tokens), tmp_path), f"#token/{quote(word.strip())}")
    token = "document.querySelector('#atlas-detail h3 bdi')"
    assert tab.evaluate(f"{token}.textContent.replace('·', '')") == word.strip()
    assert tab.evaluate(f"getComputedStyle({token}).direction") == direction
    if word.startswith(" "):  # the dot is where the word begins
        left = """((node) => {
          const range = document.createRange();
          range.selectNode(node);
          return range.getBoundingClientRect().left;
        })"""
        dot, text = tab.evaluate(f"[...{token}.childNodes].map({left})")
        assert (dot > text) == (direction == "rtl")
    assert not tab.messages


@pytest.mark.skipif("RELEXIFY_SLOW_TESTS" not in os.environ, reason="takes a minute: set RELEXIFY_SLOW_TESTS")
def test_a_quarter_of_a_million_tokens_are_searched_and_drawn_while_one_waits(tab, tmp_path):
    page = tmp_path / "big.html"
    page.write_text(
        render("big", "", [Section("atlas", "Atlas", page_file("atlas.html"))], data=big_atlas(250_000).pack())
    )
    started = time.monotonic()
    tab.open(page)
    assert time.monotonic() - started < 30
    assert tab.evaluate("document.getElementById('atlas-query').placeholder") == "Search 250,000 tokens"
    searching = """(() => {
      const input = document.getElementById("atlas-query"), started = performance.now();
      input.value = "go";
      input.dispatchEvent(new Event("input"));
      return performance.now() - started;
    })()"""
    assert tab.evaluate(searching) < 1_000
    drawing = """(async () => {
      const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      await frame();
      const started = performance.now();
      document.querySelector("[data-zoom=in]").click();
      await frame();
      return performance.now() - started;
    })()"""
    assert tab.evaluate(drawing) < 2_000
    assert not tab.messages
