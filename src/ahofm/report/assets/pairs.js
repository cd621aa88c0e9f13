// Two columns together: lines where one of them has few values, otherwise a heat map with contours.

const COLOURS = ["#1f83c1", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#a9746a"];  // on light and on dark paper

// The colour of the paper at nothing, blue below, orange-red above; readable without telling red from green.
function heatColour(v, dark) {
  const t = Math.max(-1, Math.min(1, v)), s = Math.abs(t) ** 0.8, [base, below, above] = dark ? [[38, 44, 52], [96, 178, 240], [240, 128, 92]] : [[247, 247, 247], [5, 85, 160], [178, 40, 20]];
  return base.map((b, k) => Math.round(b + ((t < 0 ? below : above)[k] - b) * s));
}

// Places of a column on an axis of a pair: numbers along its axis, or its levels, those with most rows of many.
function sideOf(c, count) {
  if (!c.numbers) return { values: c.common, few: c.common.length <= COLOURS.length, named: (v) => c.levels[v], numbers: false };
  const axis = axisOf(c), values = axis.spread(count);
  return { values, few: c.points.length > 0 && c.points.length <= COLOURS.length, named: (v) => show(v), numbers: c.points.length === 0, axis };
}

// Lines of equal value between the points of a grid: every cell is two triangles, which a level crosses once at most.
function contours(values, level, emit) {
  const cross = (a, b) => {  // corners [x, y, value]
    if ((a[2] < level) === (b[2] < level)) return null;
    const t = (level - a[2]) / (b[2] - a[2]);
    return [a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])];
  };
  for (let i = 0; i + 1 < values.length; i++) for (let k = 0; k + 1 < values[i].length; k++) {
    const p = (di, dk) => [i + di, k + dk, values[i + di][k + dk]];
    for (const corners of [[p(0, 0), p(1, 0), p(1, 1)], [p(0, 0), p(0, 1), p(1, 1)]]) {
      const found = [[0, 1], [1, 2], [2, 0]].map(([a, b]) => cross(corners[a], corners[b])).filter(Boolean);
      if (found.length === 2) emit(found[0], found[1]);
    }
  }
}

// Whether a cell of a surface has rows nearby: bits of the page's content, or null where they are not known.
function occupancy(data, a, b) {
  const swapped = a > b, text = data.occupied[swapped ? `${b},${a}` : `${a},${b}`];
  if (!text) return null;
  const bits = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), size = (c) => (c.numbers ? c.points.length || 20 : c.common.length);
  const high = size(data.columns[swapped ? a : b]), bit = (n) => (bits[n >> 3] >> (7 - (n & 7))) & 1;
  return (i, wide, k, tall) => {  // place i of `wide` across, k of `tall` up
    const at = (c, place, count) => Math.min(Math.floor(place / count * size(c)), size(c) - 1);
    const x = at(data.columns[a], i, wide), y = at(data.columns[b], k, tall);
    return bit(swapped ? y * high + x : x * high + y) === 1;
  };
}

// A line per value of the column with few of them.
function pairLines(data, across, by, values, width) {
  const c = data.columns[across.j], d = data.columns[by.j], xs = across.values, ends = range(...values);
  const x = across.numbers ? across.axis : { low: -0.5, high: xs.length - 0.5, marks: xs.map((_, k) => k), name: (k) => shortened(across.named(xs[k]), 10) };
  const at = across.numbers ? xs : xs.map((_, k) => k), f = frame({ x, y: ends, title: `${c.name} by ${d.name}`, height: Math.round(0.55 * width), label: c.name, width }), points = [];
  by.values.forEach((v, k) => {
    const colour = COLOURS[k];
    line(f, at, values[k], { stroke: colour });
    if (!across.numbers || xs.length <= 12) at.forEach((place, i) => dot(f, place, values[k][i], { fill: colour }));
    xs.forEach((value, i) => points.push({ x: f.sx(at[i]), y: f.sy(values[k][i]), text: `${c.name} = ${across.named(value)}, ${d.name} = ${by.named(v)}: ${show(values[k][i])}` }));
  });
  points.sort((a, b) => a.x - b.x);
  const box = figure(`${c.name} by ${d.name}`, f.root, { reading: { points } }), key = make("p", { class: "legend" });
  by.values.forEach((v, k) => { const one = make("span"); one.append(make("i", { style: `background:${COLOURS[k]}` }), shortened(by.named(v), 24)); key.append(one); });
  box.append(key);
  return box;
}

// A surface on a canvas; returns a function from pixels to places.
function heatMap(canvas, data, across, up, values, seen, { ink, card, dark }) {
  const xs = across.values, ys = up.values, ratio = window.devicePixelRatio || 1, W = canvas.clientWidth || 640, H = Math.round((W < 420 ? 1 : 0.72) * W), left = W < 420 ? 62 : 78, bottom = 44;
  let most = 1e-12;
  values.forEach((row, i) => row.forEach((v, k) => { if (!seen || seen(i, xs.length, k, ys.length)) most = Math.max(most, Math.abs(v)); }));
  canvas.width = W * ratio;
  canvas.height = H * ratio;
  const context = canvas.getContext("2d"), w = (W - left - 8) / xs.length, h = (H - bottom - 8) / ys.length;
  context.scale(ratio, ratio);
  const edge = (v) => Math.round(v * ratio) / ratio;  // whole pixels: no seams, also of cells that let others through
  const cell = (i, k, colour) => {
    const [x, y, x2, y2] = [left + i * w, H - bottom - (k + 1) * h, left + (i + 1) * w, H - bottom - k * h].map(edge);
    context.fillStyle = colour;
    context.fillRect(x, y, x2 - x, y2 - y);
  };
  values.forEach((row, i) => row.forEach((v, k) => cell(i, k, `rgb(${heatColour(v / most, dark).join(",")})`)));
  if (across.numbers && up.numbers) {
    context.strokeStyle = dark ? "rgba(255, 255, 255, .5)" : "rgba(0, 0, 0, .55)";
    context.lineWidth = 0.8;
    context.beginPath();
    for (const level of ticks(-most, most, 8)) contours(values, level, ([x1, y1], [x2, y2]) => {
      context.moveTo(left + (x1 + 0.5) * w, H - bottom - (y1 + 0.5) * h);
      context.lineTo(left + (x2 + 0.5) * w, H - bottom - (y2 + 0.5) * h);
    });
    context.stroke();
  }
  context.globalAlpha = 0.8;
  if (seen) values.forEach((row, i) => row.forEach((_, k) => { if (!seen(i, xs.length, k, ys.length)) cell(i, k, card); }));
  context.globalAlpha = 1;
  context.fillStyle = ink;
  context.font = `${W < 420 ? 11 : 13}px system-ui, sans-serif`;
  const at = (side, v) => (side.numbers ? (side.axis.place(v) - side.axis.low) / (side.axis.high - side.axis.low) * (side.values.length - 1) : side.values.indexOf(v)) + 0.5;
  const marks = (side, most_) => (side.numbers ? side.axis.marks : side.values.filter((_, k) => k % Math.ceil(side.values.length / most_) === 0));
  context.textAlign = "center";
  const room = Math.max(4, Math.floor((W - left) / 60));
  for (const v of marks(across, room)) context.fillText(shortened(across.numbers ? show(v, true) : across.named(v), Math.floor((W - left) / (7.5 * Math.min(marks(across, room).length, room)))), left + at(across, v) * w, H - bottom + 16);
  context.fillText(shortened(data.columns[across.j].name, 50), (left + W) / 2, H - 8);
  context.textAlign = "right";
  for (const v of marks(up, 14)) context.fillText(shortened(up.numbers ? show(v, true) : up.named(v), 8), left - 6, H - bottom - at(up, v) * h + 5);
  context.save();
  context.translate(14, (H - bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(shortened(data.columns[up.j].name, 36), 0, 0);
  context.restore();
  return { most, from: (x, y) => [Math.floor((x - left) / w), Math.floor((H - bottom - y) / h)] };
}
