// Figures as SVG, with a read-out by pointer and by arrow keys. Texts are set as text, never as markup.

function make(tag, attributes = {}, text) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function draw(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const WIDTH = 330;
let clips = 0;

// A frame: `x` and `y` have ends { low, high } in places; `place` of each puts numbers there. Marks outside are clipped.
function frame({ x, y, label, title, height = 200, zero = null, left = 44, width = WIDTH }) {
  const W = width, H = height, bottom = label ? 34 : 22, top = 8, right = 8, id = `clip-${clips++}`;
  const px = (place) => left + (W - left - right) * (x.high > x.low ? (place - x.low) / (x.high - x.low) : 0.5);
  const sx = (v) => px(x.place ? x.place(v) : v);
  const up = y.place || ((v) => v), sy = (v) => H - bottom - (H - bottom - top) * (y.high > y.low ? (up(v) - y.low) / (y.high - y.low) : 0.5);
  const root = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  const clip = draw("clipPath", { id });
  clip.append(draw("rect", { x: left, y: top - 3, width: W - left - right + 3, height: H - bottom - top + 4 }));
  root.append(clip);
  for (const v of y.marks || ticks(y.low, y.high, 4)) {
    root.append(draw("line", { x1: left, x2: W - right, y1: sy(v), y2: sy(v), class: "axis", "stroke-width": 0.5 }));
    root.append(draw("text", { x: left - 5, y: sy(v) + 4, "text-anchor": "end" }, (y.name || show)(v, true)));
  }
  let last = -Infinity;
  for (const v of x.marks || ticks(x.low, x.high, 5)) {
    const text = x.name ? x.name(v) : show(v, true), wide = 6.2 * text.length;
    if (sx(v) < left - 2 || sx(v) > W - right + 2 || sx(v) - wide / 2 < last + 4) continue;  // names do not overlap
    last = sx(v) + wide / 2;
    root.append(draw("text", { x: Math.min(sx(v), W - wide / 2), y: H - bottom + 15, "text-anchor": "middle" }, text));
  }
  if (zero !== null && y.low < up(zero) && y.high > up(zero)) root.append(draw("line", { x1: left, x2: W - right, y1: sy(zero), y2: sy(zero), class: "zero" }));
  if (label) root.append(draw("text", { x: (W + left) / 2, y: H - 4, "text-anchor": "middle" }, shortened(label, 48)));
  const body = draw("g", { "clip-path": `url(#${id})` });
  root.append(body);
  return { root, body, sx, sy, px, left, right: W - right, top, floor: H - bottom };
}

const near = (v) => Math.max(-1e4, Math.min(1e4, v)).toFixed(1);  // what is far outside is clipped, not drawn with numbers that SVG does not have
const path = (f, xs, ys) => xs.map((v, k) => (ys[k] === null ? null : `${near(f.sx(v))},${near(f.sy(ys[k]))}`)).filter(Boolean).join("L");
const line = (f, xs, ys, attributes = {}) => f.body.append(draw("path", { fill: "none", stroke: "var(--accent)", "stroke-width": 2, d: "M" + path(f, xs, ys), ...attributes }));
const area = (f, xs, low, high, fill) => f.body.append(draw("path", { fill, d: "M" + path(f, xs, low) + "L" + path(f, [...xs].reverse(), [...high].reverse()) + "Z" }));
const dot = (f, v, y, attributes = {}) => f.body.append(draw("circle", { cx: f.sx(v), cy: f.sy(y), r: 3.5, fill: "var(--accent)", ...attributes }));
const stem = (f, v, low, high, attributes = {}) => f.body.append(draw("line", { x1: f.sx(v), x2: f.sx(v), y1: near(f.sy(low)), y2: near(f.sy(high)), stroke: "var(--accent)", "stroke-width": 2, opacity: 0.6, ...attributes }));

// How many rows there are along the axis, as bars at the bottom.
function bars(f, { from, to, sizes }, height = 18) {
  const most = Math.max(...sizes, 1e-300), wide = (f.px(to) - f.px(from)) / sizes.length;
  sizes.forEach((size, k) => f.body.append(draw("rect", { x: f.px(from) + k * wide, width: Math.max(wide - 0.4, 0.4), y: f.floor - height * size / most, height: height * size / most, fill: "var(--data)" })));
}

const range = (...lists) => {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const v of list || []) if (v !== null && Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
  if (!(high >= low)) [low, high] = [-1, 1];
  const pad = 0.04 * (high - low || Math.abs(high) || 1);
  return { low: low - pad, high: high + pad };
};

// A figure with its title; `reading` has the points that a pointer or the arrow keys go through, and what is said of them.
function figure(title, svg, { note = "", reading = null } = {}) {
  const box = make("figure"), caption = make("figcaption"), out = make("output", { class: "soft" });
  caption.append(make("b", { title }, title));
  if (note) caption.append(make("span", { class: "soft" }, " " + note));
  box.append(caption, svg, out);
  const rows = Math.round((svg.viewBox.baseVal.height + 40) / 240);  // a tall one takes several rows of the grid, and others go beside it
  if (rows > 1) box.style.gridRow = `span ${rows}`;
  if (!reading || !reading.points.length) return box;
  const mark = draw("g", { class: "mark", visibility: "hidden" });
  mark.append(draw("line", { class: "axis", x1: 0, x2: 0, y1: 8, y2: svg.viewBox.baseVal.height - 24 }), draw("circle", { r: 4.5, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 }));
  svg.append(mark);
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-label", `${title}: arrow keys read values`);
  let at = -1;
  const read = (k) => {
    at = Math.max(0, Math.min(reading.points.length - 1, k));
    const { x, y, text, row } = reading.points[at];
    mark.setAttribute("visibility", "visible");
    mark.firstChild.setAttribute("visibility", row ? "hidden" : "inherit");
    mark.firstChild.setAttribute("transform", `translate(${x} 0)`);
    mark.lastChild.setAttribute("cx", x);
    mark.lastChild.setAttribute("cy", y);
    out.textContent = text;
  };
  svg.addEventListener("pointermove", (event) => {
    const size = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / size.width;
    const x = (event.clientX - size.left) * scale, y = (event.clientY - size.top) * scale;
    let best = 0, least = Infinity;
    reading.points.forEach((point, k) => {
      const far = point.row ? Math.abs(point.y - y) : Math.abs(point.x - x) + 0.01 * Math.abs(point.y - y);
      if (far < least) { least = far; best = k; }
    });
    read(best);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    read(at < 0 ? 0 : at + step);
  });
  return box;
}

function bar(name, parts, number, most, action) {
  const row = make(action ? "button" : "div", action ? { type: "button", class: "bar" } : { class: "bar" });
  const track = make("span", { class: "track" });
  for (const [from, to, kind] of parts) track.append(make("i", { class: kind, style: `left:${100 * from / most}%;width:${100 * (to - from) / most}%` }));
  row.append(make("span", { class: "name", title: name }, name), track, make("span", { class: "number" }, number));
  if (action) row.addEventListener("click", action);
  return row;
}

function table(rows) {
  const made = make("table"), head = make("tr");
  rows[0].forEach((cell) => head.append(make("th", { scope: "col" }, cell)));
  made.append(head);
  for (const cells of rows.slice(1)) { const row = make("tr"); cells.forEach((cell) => row.append(make("td", {}, cell))); made.append(row); }
  return made;
}
