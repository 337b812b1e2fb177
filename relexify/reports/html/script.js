"use strict";
// The page works without this script, except for the token atlas and the button for the colours.

const root = document.documentElement;
const darkByDefault = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;

function applyTheme() {
  root.dataset.theme = chosenTheme ?? (darkByDefault.matches ? "dark" : "light");
  dispatchEvent(new Event("themechange"));
}
darkByDefault.addEventListener("change", applyTheme);
document.getElementById("theme").addEventListener("click", () => {
  chosenTheme = root.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
});
applyTheme();

/** Colours of the map, and what they mean: how clear it was which source tokens a token is made from. */
const GROUPS = {
  one: "made from one source token", mostly: "mostly from one", several: "from several",
  special: "special token", precomputed: "computed by the method", none: "no evidence",
};

function groupOf(atlas, id) {
  const origin = atlas.originNames[atlas.origins[id]];
  if (origin in GROUPS) return origin;
  const heaviest = Math.abs(atlas.sourceWeights[atlas.starts[id]]) * atlas.weightUnit;
  return heaviest >= 0.9 ? "one" : heaviest >= 0.5 ? "mostly" : "several";
}

/** Decompress and read the atlas that atlas.py packs. */
async function readAtlas(encoded) {
  const characters = atob(encoded);
  const packed = new Uint8Array(characters.length);
  for (let at = 0; at < packed.length; at++) packed[at] = characters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const decoder = new TextDecoder();
  const atlas = JSON.parse(decoder.decode(new Uint8Array(buffer, 4, size)));
  const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i2: Int16Array };
  const padded = (length) => length + ((4 - (length % 4)) % 4);
  let offset = 4 + padded(size);
  for (const [name, kind, length] of atlas.arrays) {
    atlas[name] = new kinds[kind](buffer, offset, length);
    offset += padded(atlas[name].byteLength);
  }
  [atlas.tokens, atlas.sources] = atlas.texts.map((length) => {
    const text = decoder.decode(new Uint8Array(buffer, offset, length));
    offset += length;
    return text.split("\0");
  });
  atlas.starts = new Uint32Array(atlas.tokens.length + 1);
  atlas.sourceCounts.forEach((count, id) => { atlas.starts[id + 1] = atlas.starts[id] + count; });
  const names = Object.keys(GROUPS);
  atlas.groups = Uint8Array.from(atlas.origins, (_, id) => names.indexOf(groupOf(atlas, id)));
  return atlas;
}

/** An element with text; a space before a word is shown as a dot. */
function tokenElement(text) {
  const element = document.createElement("bdi");
  if (text.startsWith(" ")) {
    const space = document.createElement("span");
    space.className = "space";
    space.textContent = "·";
    element.append(space);
    text = text.slice(1);
  }
  element.append(text);
  return element;
}

function make(name, attributes, ...children) {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
}

class Search {
  static LIMIT = 60;

  constructor(atlas, onSelect) {
    this.atlas = atlas;
    this.lower = atlas.tokens.map((token) => token.toLowerCase());
    this.onSelect = onSelect;
    this.input = document.getElementById("atlas-query");
    this.list = document.getElementById("atlas-results");
    this.active = -1;
    this.waits = false;  // whether a token was typed or marked that is not shown yet
    this.input.addEventListener("input", () => this.show());
    this.input.addEventListener("keydown", (event) => this.press(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.choose([...this.list.children].indexOf(item));
    });
  }

  /** Ids of all matching tokens: the same text, also in its case, then the same beginning, then the text anywhere;
   * frequent ones first. */
  find(query) {
    const exact = query.trim(), wanted = exact.toLowerCase();
    const equal = [], same = [], starting = [], containing = [];
    if (!wanted) return [];
    for (let id = 0; id < this.lower.length; id++) {
      const token = this.lower[id];
      const at = token.indexOf(wanted);
      if (at < 0) continue;
      const text = token.trimStart();
      if (text === wanted) (this.atlas.tokens[id].trimStart() === exact ? equal : same).push(id);
      else if (text.startsWith(wanted)) starting.push(id);
      else containing.push(id);
    }
    return equal.concat(same, starting, containing);
  }

  show() {
    const query = this.input.value;
    let all = this.find(query);
    if (!all.length) all = this.find(query.trim().replace(/^·/, ""));  // a token as this page shows it
    this.found = all.slice(0, Search.LIMIT);
    this.list.replaceChildren(...this.found.map((id, index) => {
      const item = make("li", { id: `atlas-result-${index}` }, tokenElement(this.atlas.tokens[id]), make("small", {}, `${id}`));
      item.setAttribute("role", "option");
      return item;
    }));
    this.input.setAttribute("aria-expanded", String(this.found.length > 0));
    const isUnknown = query.trim() !== "" && !this.found.length;
    const limit = all.length > Search.LIMIT ? `${Search.LIMIT} of ${all.length.toLocaleString("en")} tokens are listed.` : "";
    document.getElementById("atlas-status").textContent =
      isUnknown ? "No token contains this: it is written with several tokens." : limit;
    document.getElementById("atlas-detail").hidden = isUnknown;  // it would seem to answer the search
    this.mark(this.found.length ? 0 : -1);
  }

  mark(index) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = index;
    this.waits = index >= 0;
    const item = this.list.children[index];
    if (!item) return this.input.removeAttribute("aria-activedescendant");
    item.setAttribute("aria-selected", "true");
    item.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", item.id);
  }

  press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.found?.length) {
      event.preventDefault();
      this.mark((this.active + step + this.found.length) % this.found.length);
    } else if (event.key === "Enter" && this.active >= 0) {
      event.preventDefault();
      this.choose(this.active);
    } else if (event.key === "Tab" && !event.shiftKey && this.waits) {
      this.choose(this.active);  // before the focus moves, which is then on the neighbours of this token
    } else if (event.key === "Escape") {  // only some browsers do this themselves
      this.input.value = "";
      this.show();
    }
  }

  choose(index) {
    this.mark(index);
    this.waits = false;
    this.onSelect(this.found[index]);
  }
}

function showDetail(atlas, id, names, onSelect) {
  const origin = atlas.originNames[atlas.origins[id]];
  const detail = document.getElementById("atlas-detail");
  const title = make("h3", {}, tokenElement(atlas.tokens[id]));
  const parts = [title, make("p", {}, `id ${id} · ${names[origin] ?? origin}`)];
  const [start, end] = [atlas.starts[id], atlas.starts[id + 1]];
  if (end > start) {
    parts.push(make("h4", {}, "Source tokens, by weight"));
    const largest = Math.abs(atlas.sourceWeights[start]) || 1;
    for (const entry of inOrder(atlas, id, start, end)) {
      const weight = atlas.sourceWeights[entry];
      const bar = make("i", { className: weight < 0 ? "negative" : "" });
      bar.style.setProperty("--share", Math.abs(weight) / largest);
      const value = make("b", {}, (weight * atlas.weightUnit).toFixed(3));
      parts.push(make("div", { className: "weight" }, tokenElement(atlas.sources[atlas.sourceIds[entry]]), bar, value));
    }
    if (atlas.otherCounts[id]) {
      const name = make("span", {}, `${atlas.otherCounts[id].toLocaleString("en")} more`);
      const value = make("b", {}, (atlas.otherWeights[id] * atlas.weightUnit).toFixed(3));
      parts.push(make("div", { className: "weight others" }, name, make("span"), value));
    }
  }
  const near = nearTo(atlas, id);
  if (near.length) {
    const buttons = near.map(([other, cosine]) => {
      const button = make("button", { type: "button", title: `cosine ${cosine.toFixed(2)}` }, tokenElement(atlas.tokens[other]));
      button.addEventListener("click", () => onSelect(other));
      return button;
    });
    parts.push(make("h4", {}, "Nearest target tokens"), make("div", { className: "near" }, ...buttons));
  }
  detail.replaceChildren(...parts);
  detail.hidden = false;
}

/** Source tokens from `start` to `end`, by weight; those that spell the token, with equal weights, in the order of its text. */
function inOrder(atlas, id, start, end) {
  const place = (entry) => {
    const at = atlas.tokens[id].indexOf(atlas.sources[atlas.sourceIds[entry]]);
    return at < 0 ? Infinity : at;
  };
  const entries = Array.from({ length: end - start }, (_, rank) => ({ entry: start + rank, at: place(start + rank) }));
  const weight = ({ entry }) => Math.abs(atlas.sourceWeights[entry]);
  return entries.sort((a, b) => weight(b) - weight(a) || (a.at === b.at ? 0 : a.at - b.at)).map(({ entry }) => entry);
}

function nearTo(atlas, id) {
  const count = atlas.neighboursPerToken;
  return Array.from({ length: count }, (_, rank) =>
    [atlas.neighbours[id * count + rank], atlas.cosines[id * count + rank] / 255]);
}

/** Ids of frequent words: no parts of words, if words have a space before them, no foreign names, if the script of the
 * language is not Latin, and no short words, which have many meanings. Those that were mixed come first: in an extended
 * vocabulary, they are the added ones. */
function typicalWords(atlas) {
  let ids = [];
  atlas.tokens.forEach((token, id) => {
    if (/^ ?\p{L}[\p{L}\p{M}]+$/u.test(token)) ids.push(id);
  });
  for (const typical of [/^ /u, /^ ?[^\p{Script=Latin}]+$/u, /^ ?(\p{Script=Han}{2}|\p{L}{4})/u]) {
    const found = ids.filter((id) => typical.test(atlas.tokens[id]));
    if (found.length > ids.length / 5) ids = found;
  }
  const mixed = ids.filter((id) => atlas.sourceCounts[id] > 1);
  return [...mixed, ...ids.filter((id) => atlas.sourceCounts[id] <= 1)].slice(0, 20000);
}

class TokenMap {
  static LABELS = 70;
  static AREA = 660 * 540;

  constructor(atlas, onSelect) {
    this.atlas = atlas;
    this.onSelect = onSelect;
    this.canvas = document.getElementById("atlas-map");
    this.tip = document.getElementById("atlas-tip");
    this.selected = -1;
    this.widths = new Map();  // of labels; measuring text is what takes longest
    this.reset();
    this.words = typicalWords(atlas);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    addEventListener("themechange", () => this.draw());
    this.canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== this.canvas && !event.ctrlKey) return;  // the page is scrolled past the map
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    document.querySelector(".zoom").addEventListener("click", (event) => {
      const [width, height] = this.size;
      const kind = event.target.closest("button")?.dataset.zoom;
      if (kind === "all") { this.reset(); this.draw(); }
      else if (kind) this.zoom(kind === "in" ? 1.6 : 1 / 1.6, width / 2, height / 2);
    });
  }

  reset() {
    this.scale = 1;
    this.x = this.y = 0.5;
  }

  get size() { return [this.canvas.clientWidth, this.canvas.clientHeight]; }

  /** The area of the map relative to that on a wide screen; a small one has smaller points and fewer labels. */
  get share() { return Math.min(1, this.canvas.clientWidth * this.canvas.clientHeight / TokenMap.AREA); }

  /** Factors and offsets from stored positions to CSS pixels; asking the page for its size is too slow for each token. */
  projection() {
    const [width, height] = this.size;
    const [fx, fy] = [this.scale * width * 0.94, this.scale * height * 0.94];
    return [fx / 65535, width / 2 - this.x * fx, fy / 65535, height / 2 - this.y * fy];
  }

  /** The place of a token in the canvas, in CSS pixels. */
  place(id, [fx, x, fy, y] = this.projection()) {
    return [this.atlas.positions[2 * id] * fx + x, this.atlas.positions[2 * id + 1] * fy + y];
  }

  zoom(factor, px, py) {
    const [width, height] = this.size;
    const before = this.scale;
    this.scale = Math.min(80, Math.max(1, this.scale * factor));
    const gain = 1 / before - 1 / this.scale;
    this.x += (px - width / 2) / (width * 0.94) * gain;
    this.y += (py - height / 2) / (height * 0.94) * gain;
    this.draw();
  }

  press(event) {
    const [width, height] = this.size;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) {
      this.x += moves[event.key][0] * 0.1 / this.scale;
      this.y += moves[event.key][1] * 0.1 / this.scale;
      this.draw();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.4, width / 2, height / 2);
    else if (event.key === "-") this.zoom(1 / 1.4, width / 2, height / 2);
    else if (event.key === "0") { this.reset(); this.draw(); }
    else return;
    event.preventDefault();
  }

  grab(event) {
    const [startX, startY, x, y] = [event.clientX, event.clientY, this.x, this.y];
    const [width, height] = this.size;
    let moved = false;
    const move = (now) => {
      const [dx, dy] = [now.clientX - startX, now.clientY - startY];
      moved ||= Math.hypot(dx, dy) > 4;
      this.x = x - dx / (width * 0.94 * this.scale);
      this.y = y - dy / (height * 0.94 * this.scale);
      this.draw();
    };
    const end = (last) => {
      for (const [name, listener] of listeners) this.canvas.removeEventListener(name, listener);
      const id = moved || last.type === "pointercancel" ? -1 : this.at(last.offsetX, last.offsetY);
      if (id >= 0) this.onSelect(id);
    };
    const listeners = [["pointermove", move], ["pointerup", end], ["pointercancel", end]];  // cancelled: a finger scrolls
    this.canvas.setPointerCapture(event.pointerId);
    for (const [name, listener] of listeners) this.canvas.addEventListener(name, listener);
  }

  /** The token nearest to a point, within a few pixels; -1 if there is none. */
  at(px, py) {
    const { positions } = this.atlas;
    const [fx, x, fy, y] = this.projection();
    let best = -1, distance = 100;
    for (let id = 0; id < positions.length / 2; id++) {
      const dx = positions[2 * id] * fx + x - px, dy = positions[2 * id + 1] * fy + y - py;
      const squared = dx * dx + dy * dy;
      if (squared < distance) { best = id; distance = squared; }
    }
    return best;
  }

  hover(event) {
    if (event.buttons) return;
    const id = this.at(event.offsetX, event.offsetY);
    this.tip.hidden = id < 0;
    if (id < 0) return;
    const [x, y] = this.place(id);
    const { starts, sources, sourceIds } = this.atlas;
    const source = starts[id + 1] > starts[id] ? [make("small", {}, " from ", tokenElement(sources[sourceIds[starts[id]]]))] : [];
    this.tip.replaceChildren(tokenElement(this.atlas.tokens[id]), ...source);
    const half = this.tip.offsetWidth / 2;  // within the map, also for a point at its edge
    this.tip.style.left = `${Math.max(half, Math.min(this.canvas.clientWidth - half, x))}px`;
    this.tip.style.top = `${Math.max(40, y)}px`;
  }

  /** Select a token, and move it and its neighbours into view. */
  select(id) {
    this.selected = id;
    const { positions } = this.atlas;
    const near = nearTo(this.atlas, id).map(([other]) => other);
    const spread = (axis) => Math.max(...near.map((other) => Math.abs(positions[2 * other + axis] - positions[2 * id + axis]))) / 65535;
    this.x = positions[2 * id] / 65535;
    this.y = positions[2 * id + 1] / 65535;
    this.scale = Math.min(12, Math.max(1, 0.4 / Math.max(0.01, spread(0), spread(1))));
    this.draw();
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const [width, height] = this.size;
    const ratio = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (!wide || !high) return;
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.paintPoints(context, wide, high, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(root);
    const ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft"), page = style.getPropertyValue("--page");
    const family = getComputedStyle(document.body).fontFamily;
    context.textAlign = "center";
    context.lineJoin = "round";
    const fonts = {};  // as the context spells them
    for (const weight of [400, 600, 700]) {
      context.font = `${weight} 13px ${family}`;
      fonts[weight] = context.font;
    }
    const boxes = [[width - 48, 0, width, 124]];  // of the buttons, and of labels that were drawn
    const projection = this.projection();
    const label = (id, colour, weight, force) => {
      const [x, y] = this.place(id, projection);
      const boxOf = (half) => [x - half, y - 20, x + half, y - 3];
      const isFree = (box) => box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height
        && !boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      if (!force && !isFree(boxOf(12))) return false;  // no label is narrower
      const text = this.atlas.tokens[id].trim();
      if (context.font !== fonts[weight]) context.font = fonts[weight];
      const key = `${weight} ${id}`;
      if (!this.widths.has(key)) this.widths.set(key, context.measureText(text).width);
      const box = boxOf(Math.max(12, this.widths.get(key) / 2 + 3));
      if (!force && !isFree(box)) return false;
      boxes.push(box);
      context.lineWidth = 4;
      context.strokeStyle = page;
      context.strokeText(text, x, y - 7);
      context.fillStyle = colour;
      context.fillText(text, x, y - 7);
      return true;
    };
    if (this.selected >= 0) {
      const [x, y] = this.place(this.selected, projection);
      const near = nearTo(this.atlas, this.selected);
      context.lineWidth = 1;
      context.strokeStyle = soft;
      for (const [other] of near) {
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(...this.place(other, projection));
        context.stroke();
      }
      context.fillStyle = style.getPropertyValue("--accent");
      context.beginPath();
      context.arc(x, y, 5, 0, 2 * Math.PI);
      context.fill();
      label(this.selected, style.getPropertyValue("--accent"), 700, true);
      for (const [other] of near) label(other, ink, 600, false);
    }
    let shown = 0;
    for (const id of this.words) {
      if (shown >= TokenMap.LABELS * this.share) break;
      if (label(id, soft, 400, false)) shown++;
    }
  }

  /** Write points straight into the pixels: fast enough for hundreds of thousands of them. */
  paintPoints(context, wide, high, ratio) {
    const style = getComputedStyle(root);
    const colour = (name) => {
      const value = parseInt(style.getPropertyValue(name).trim().slice(1), 16);
      return value < 4096 && style.getPropertyValue(name).trim().length === 4
        ? [17 * (value >> 8), 17 * ((value >> 4) & 15), 17 * (value & 15)]
        : [value >> 16, (value >> 8) & 255, value & 255];
    };
    const ground = colour("--page");
    const colours = Object.keys(GROUPS).map((name) => colour(`--${name}`));
    const pixels = context.createImageData(wide, high);
    const data = pixels.data;
    const dense = this.atlas.tokens.length / this.scale ** 2 / this.share;
    const side = Math.max(1, Math.round(ratio * (dense > 60000 ? 1 : dense > 9000 ? 2 : 3)));
    const strength = dense > 60000 ? 0.4 : 0.6;
    for (let at = 0; at < data.length; at += 4) {
      data[at] = ground[0]; data[at + 1] = ground[1]; data[at + 2] = ground[2]; data[at + 3] = 255;
    }
    const { positions, groups } = this.atlas;
    const [fx, x, fy, y] = this.projection();
    for (let id = 0; id < groups.length; id++) {
      const left = Math.round((positions[2 * id] * fx + x) * ratio - side / 2);
      const top = Math.round((positions[2 * id + 1] * fy + y) * ratio - side / 2);
      if (left < -side || top < -side || left >= wide || top >= high) continue;
      const [red, green, blue] = colours[groups[id]];
      for (let row = Math.max(0, top); row < Math.min(high, top + side); row++) {
        for (let column = Math.max(0, left); column < Math.min(wide, left + side); column++) {
          const at = 4 * (row * wide + column);
          data[at] += (red - data[at]) * strength;
          data[at + 1] += (green - data[at + 1]) * strength;
          data[at + 2] += (blue - data[at + 2]) * strength;
        }
      }
    }
    context.putImageData(pixels, 0, 0);
  }
}

async function start() {
  const encoded = document.getElementById("atlas-data").textContent;
  const status = document.getElementById("atlas-status");
  if (!encoded) return;
  status.textContent = "Reading the tokens …";
  if (typeof DecompressionStream === "undefined") {
    status.textContent = "This browser cannot decompress the token atlas: use one from 2023 or later.";
    return;
  }
  const atlas = await readAtlas(encoded);
  const names = Object.fromEntries(atlas.originNames.map((name) => [name, document.querySelector(`.legend i.${name} + b`)?.textContent ?? name]));
  const map = atlas.positions.length ? new TokenMap(atlas, select) : null;
  if (!map) document.querySelector(".map").remove();
  const search = new Search(atlas, select);
  function select(id) {
    showDetail(atlas, id, names, select);
    map?.select(id);
    const word = atlas.tokens[id].trim();
    const isFirst = search.find(word)[0] === id;  // else the number tells it from others with this text
    const link = `#token/${encodeURIComponent(word)}${isFirst ? "" : `/${id}`}`;
    try { history.replaceState(null, "", link); } catch { /* within another page, an address may not be changed */ }
  }
  if (map) {
    document.getElementById("atlas-legend").replaceChildren(...Object.entries(GROUPS)
      .filter((_, group) => atlas.groups.includes(group))
      .map(([name, meaning]) => make("span", {}, make("i", { className: name }), meaning)));
  }
  search.input.placeholder = `Search ${atlas.tokens.length.toLocaleString("en")} tokens`;
  status.textContent = "";
  const linked = () => {
    const [, rest] = decodeURIComponent(location.hash).match(/^#token\/(.+)$/) ?? [];
    if (rest === undefined) return;
    const [, text, number] = rest.match(/^(.*)\/(\d+)$/) ?? [];
    const id = text !== undefined && atlas.tokens[number]?.trim() === text ? Number(number) : -1;
    search.input.value = id < 0 ? rest : text;
    search.show();
    const index = search.found.indexOf(id);
    if (id >= 0 && index < 0) select(id);  // such as a token of nothing but spaces
    else if (search.found.length) search.choose(Math.max(0, index));
    document.getElementById("atlas").scrollIntoView();
  };
  addEventListener("hashchange", linked);
  // Start with a frequent word for which one of several source tokens was clear, so that the panel explains itself.
  const mixed = typicalWords(atlas).filter((id) => atlas.sourceCounts[id] > 1);
  const first = mixed.slice(0, 300).find((id) => groupOf(atlas, id) === "mostly") ?? mixed[0] ?? 0;
  showDetail(atlas, first, names, select);
  if (map) {
    map.selected = first;
    map.draw();
  }
  linked();
  root.dataset.atlas = "ready";
}
start();
