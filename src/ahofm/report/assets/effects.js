// Effects of single columns: curves with bands, or one dot per level.

// Ends of the vertical axis: the curve where the rows are, and as much of its band as does not flatten it. Bands count
// on the scale of the linear predictor, `most` of it at the most: what is hardly known would leave no room for the rest.
function viewOf(e, inside, transform, most) {
  const at = e.value.map((_, k) => k).filter(inside), sorted = (ends) => ends.map(transform).sort((a, b) => a - b);
  const values = at.map((k) => e.value[k]), curve = [Math.min(...values), Math.max(...values)], [floor, ceiling] = sorted(curve);
  let { low, high } = range([floor, ceiling]);
  if (e.low) {
    const half = at.map((k) => [(e.high[k] - e.low[k]) / 2, e.rows[k]]).sort((a, b) => a[0] - b[0]), total = half.reduce((t, h) => t + h[1], 0);
    let seen = 0, typical = 0;
    for (const [size, rows] of half) { seen += rows; typical = size; if (seen >= total / 2) break; }
    const size = curve[1] - curve[0], room = Math.max(Math.min(2.5 * typical, Math.max(1.5 * size, most)), 0.3 * size);
    const band = [Math.min(...at.map((k) => e.low[k])), Math.max(...at.map((k) => e.high[k]))];
    const ends = sorted([Math.max(band[0], curve[0] - room), Math.min(band[1], curve[1] + room)]), unit = sorted([-most, most]);
    const far = Math.max(ceiling - floor, (unit[1] - unit[0]) / 2);  // factors and probabilities stretch what is above
    ({ low, high } = range([floor, ceiling, Math.max(ends[0], floor - far), Math.min(ends[1], ceiling + far)]));
  }
  return { low, high };
}

// The same for factors of a wide range, as logarithms: on their own scale most of a curve would be a flat line at 0.
const WIDE = Math.log(8);
function axisOfEffect(e, inside, { transform, neutral, most }) {
  const values = e.value.filter((_, k) => inside(k)), wide = neutral === 1 && Math.max(...values) - Math.min(...values) > WIDE;
  if (!wide) return viewOf(e, inside, transform, most);
  const { low, high } = viewOf(e, inside, (v) => v, most);
  return { low, high, place: Math.log, marks: logTicks(Math.exp(low), Math.exp(high)) };
}

const MANY = 15;  // highest and lowest levels of many
const leftOf = (names) => Math.min(128, 18 + 6.4 * Math.max(...names.map((name) => Math.min(widthOf(name), 19)), 3));  // room for names of levels
const SIZES = 44;  // width of the bars beside levels that say how many rows they have

// A row per level, sorted by effect, with the interval and how many rows it has.
function levelChart(c, e, settings, said) {
  const { transform, neutral, partial } = settings;
  let order = e.value.map((_, k) => k).sort((a, b) => e.value[b] - e.value[a]);
  const H = 17, count = order.length, cut = count > 2 * MANY, hidden = count - 2 * MANY;
  if (cut) order = [...order.slice(0, MANY), null, ...order.slice(-MANY)];
  const shown = order.filter((k) => k !== null), left = leftOf(shown.map((k) => c.levels[k])), y = axisOfEffect(e, (k) => shown.includes(k), settings), up = y.place || ((v) => v), largest = Math.max(...shown.map((k) => c.mass[k]), 1e-300);
  const height = 14 + H * order.length + 24, right = WIDTH - SIZES - 14, px = (v) => left + (right - left) * (Math.min(Math.max(up(v), y.low), y.high) - y.low) / (y.high - y.low || 1);
  const root = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Effect of ${c.name}` }), points = [];
  for (const v of y.marks || ticks(y.low, y.high, 4)) {
    root.append(draw("line", { x1: px(v), x2: px(v), y1: 6, y2: height - 22, class: "axis", "stroke-width": 0.5 }));
    root.append(draw("text", { x: px(v), y: height - 8, "text-anchor": "middle" }, show(v, true)));
  }
  if (y.low < up(neutral) && y.high > up(neutral)) root.append(draw("line", { x1: px(neutral), x2: px(neutral), y1: 6, y2: height - 22, class: "zero" }));
  order.forEach((k, i) => {
    const at = 14 + H * i;
    if (k === null) { root.append(draw("text", { x: WIDTH / 2, y: at + 4, "text-anchor": "middle" }, `… ${hidden.toLocaleString("en")} levels between …`)); return; }
    const name = draw("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, shortened(c.levels[k], 19));
    name.append(draw("title", {}, c.levels[k]));
    root.append(draw("rect", { x: WIDTH - SIZES - 4, y: at - 5, width: Math.max(SIZES * c.mass[k] / largest, 0.5), height: 10, fill: "var(--data)" }), name);
    const v = transform(e.value[k]);
    if (e.low) root.append(draw("line", { x1: px(transform(e.low[k])), x2: px(transform(e.high[k])), y1: at, y2: at, stroke: "var(--accent)", "stroke-width": 3, opacity: 0.5 }));
    root.append(draw("circle", { cx: px(v), cy: at, r: 4, fill: "var(--accent)" }));
    const own = partial.get(c.levels[k]);
    if (own !== undefined) root.append(draw("path", { d: `M${px(transform(own)) - 3},${at - 3}l6,6m0,-6l-6,6`, stroke: "var(--other)", "stroke-width": 1.6 }));
    points.push({ x: px(v), y: at, row: true, text: said(k, `, ${show(c.mass[k])} rows`) });
  });
  return { root, points };
}

// One column of one linear predictor. `partial` has mean partial residuals by number or level, to be drawn as crosses.
function effectFigure(c, e, settings) {
  const { transform, neutral, full, partial, unit } = settings;
  const interval = (k) => (e.low ? ` (${[transform(e.low[k]), transform(e.high[k])].sort((a, b) => a - b).map((v) => show(v)).join(" to ")})` : "");
  const named = (k) => (c.numbers ? show(e.x[k]) : c.levels[k]);
  const said = (k, more = "") => `${shortened(c.name, 30)} = ${shortened(named(k), 30)}: ${show(transform(e.value[k]))}${interval(k)}${unit}${more}`;
  const note = e.edf === null ? "" : `edf ${e.edf < 10 ? e.edf.toFixed(1) : Math.round(e.edf)}`;
  if (!c.numbers) {
    const { root, points } = levelChart(c, e, settings, said);
    return figure(c.name, root, { note, reading: { points } });
  }
  const axis = axisOf(c, full), few = c.points.length > 0, inside = (k) => e.x[k] >= c.axis.low && e.x[k] <= c.axis.high;
  const y = axisOfEffect(e, inside, settings), f = frame({ x: axis, y, title: `Effect of ${c.name}`, zero: neutral });
  const shown = e.x.map((_, k) => k).filter((k) => full || inside(k)), xs = shown.map((k) => e.x[k]), pick = (list) => shown.map((k) => transform(list[k]));
  if (c.bars && !few) bars(f, c.bars);
  if (few) shown.forEach((k, i) => {
    if (e.low) stem(f, xs[i], transform(e.low[k]), transform(e.high[k]), { "stroke-width": 3, opacity: 0.5 });
    dot(f, xs[i], transform(e.value[k]), { r: 4.5 });
  });
  else {
    if (e.all_low) area(f, xs, pick(e.all_low), pick(e.all_high), "var(--wide)");
    if (e.low) area(f, xs, pick(e.low), pick(e.high), "var(--band)");
    line(f, xs, pick(e.value));
    for (const [from, to] of full ? [[f.left, f.sx(c.axis.low)], [f.sx(c.axis.high), f.right]] : []) if (to > from + 1) f.body.append(draw("rect", { x: from, y: f.top, width: to - from, height: f.floor - f.top, fill: "var(--card)", opacity: 0.6 }));
  }
  for (const [at, v] of partial) f.body.append(draw("path", { d: `M${f.sx(at) - 3},${f.sy(transform(v)) - 3}l6,6m0,-6l-6,6`, stroke: "var(--other)", "stroke-width": 1.6 }));
  const points = shown.map((k, i) => ({ x: f.sx(xs[i]), y: Math.min(Math.max(f.sy(transform(e.value[k])), f.top), f.floor), text: said(k) }));
  const cut = !full && c.axis.beyond > 0 ? `${percent(c.axis.beyond)} of rows beyond` : "";
  return figure(c.name, f.root, { note: [note, cut].filter(Boolean).join(" · "), reading: { points } });
}
