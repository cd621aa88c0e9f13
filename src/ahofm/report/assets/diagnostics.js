// Predictions beside what was observed.

function wholeCharts(data, group, residuals) {
  const found = [], t = group.tenths, size = data.diagnostics.size;
  const span = range(t.fitted, t.observed.map((v, k) => v - 2 * t.error[k]), t.observed.map((v, k) => v + 2 * t.error[k]));
  const c = frame({ x: span, y: span, label: "fitted", title: "Calibration", height: 220 });
  line(c, [span.low, span.high], [span.low, span.high], { stroke: "var(--soft)", "stroke-width": 0.8 });
  t.fitted.forEach((v, k) => { stem(c, v, t.observed[k] - 2 * t.error[k], t.observed[k] + 2 * t.error[k], { "stroke-width": 1.2 }); dot(c, v, t.observed[k]); });
  found.push(figure("Calibration", c.root, { note: "observed by tenths of the prediction", reading: { points: t.fitted.map((v, k) => ({ x: c.sx(v), y: c.sy(t.observed[k]), text: `tenth ${k + 1}: fitted ${show(v)}, observed ${show(t.observed[k])} ± ${show(2 * t.error[k])}` })) } }));
  if (group.order && group.overall > 0) {
    const lift = t.observed.map((v) => v / group.overall), fitted = t.fitted.map((v) => v / group.overall), x = { low: 0.4, high: t.at.length + 0.6, marks: t.at };
    const f = frame({ x, y: { low: 0, high: range(lift, fitted).high }, label: "tenths of the prediction, low to high", title: "Lift", height: 220, zero: 1 }), wide = (f.sx(2) - f.sx(1)) * 0.7;
    lift.forEach((v, k) => f.body.append(draw("rect", { x: f.sx(k + 1) - wide / 2, width: wide, y: f.sy(v), height: f.floor - f.sy(v), fill: "var(--band)" })));
    line(f, t.at, fitted, { stroke: "var(--other)", "stroke-width": 1.6 });
    const top = lift[lift.length - 1];
    found.push(figure("Lift", f.root, { note: `highest tenth: ${show(top)} times the mean`, reading: { points: lift.map((v, k) => ({ x: f.sx(k + 1), y: f.sy(v), text: `tenth ${k + 1}: observed ${show(v)}, fitted ${show(fitted[k])} times the mean` })) } }));
    const unit = { low: 0, high: 1 }, g = frame({ x: unit, y: unit, label: `share of ${size}, lowest predictions first`, title: "Gini", height: 220 });
    line(g, [0, 1], [0, 1], { stroke: "var(--soft)", "stroke-width": 0.8 });
    line(g, group.order.rows, group.order.observed);
    found.push(figure("Order of the predictions", g.root, { note: `Gini ${group.order.gini.toFixed(3)}, ${percent(group.order.gini / (group.order.best || 1))} of what is possible` }));
  }
  if (!residuals) return found;
  const r = frame({ x: range(residuals.fitted), y: range(residuals.residual), label: "fitted", title: "Residuals against predictions", height: 220, zero: 0 });
  residuals.fitted.forEach((v, k) => dot(r, v, residuals.residual[k], { r: 2, opacity: 0.4 }));
  const both = range(residuals.normal, residuals.ordered), q = frame({ x: both, y: both, label: "normal quantile", title: "Quantiles of residuals", height: 220 });
  area(q, residuals.normal, residuals.low, residuals.high, "var(--band)");
  line(q, [both.low, both.high], [both.low, both.high], { stroke: "var(--soft)", "stroke-width": 0.8 });
  residuals.normal.forEach((v, k) => dot(q, v, residuals.ordered[k], { r: 1.8, opacity: 0.8 }));
  const { from, to, counts } = residuals.histogram, step = (to - from) / counts.length, total = counts.reduce((a, b) => a + b, 0);
  const density = counts.map((n) => n / total / step), xs = Array.from({ length: 81 }, (_, k) => from + (to - from) * k / 80), bell = xs.map((v) => Math.exp(-v * v / 2) / Math.sqrt(2 * Math.PI));
  const b = frame({ x: { low: from, high: to }, y: { low: 0, high: 1.05 * Math.max(...density, 0.4) }, label: "quantile residual", title: "Histogram of residuals", height: 220 });
  density.forEach((v, k) => b.body.append(draw("rect", { x: b.sx(from + k * step), width: b.sx(step) - b.sx(0) - 0.5, y: b.sy(v), height: b.floor - b.sy(v), fill: "var(--band)" })));
  line(b, xs, bell, { stroke: "var(--other)", "stroke-width": 1.5 });
  found.push(figure("Quantile residuals", r.root), figure("Against the normal distribution", q.root, { note: "band: 95 % where the model is right" }), figure("Histogram of residuals", b.root, { note: "line: the normal distribution" }));
  return found;
}

// What is drawn of the bins of a column: observed means, or what is left of them, with two standard errors; how far the
// axis goes. Groups of a few rows stretch it by half at the most: dots beyond are at its end; they are pale, and so is
// the line of fitted means on its way to them.
function binned(c, own, unit, residual) {
  const level = (v) => (v === null ? "missing" : String(v)), middle = residual ? own.step : own.observed, error = residual ? own.step_error : own.error;
  const at = own.at.map((_, k) => k), sizes = [...own.size].sort((a, b) => b - a), typical = sizes[Math.floor(sizes.length / 2)] || 0, known = (k) => middle[k] !== null && Number.isFinite(middle[k]);
  const firm = (k) => own.size[k] >= 0.2 * typical, shown = at.filter((k) => known(k) && firm(k)), ends = (sign) => shown.map((k) => middle[k] + sign * 2 * (error[k] || 0));
  let limits = range(ends(-1), ends(1), residual ? [0] : at.filter(firm).map((k) => own.fitted[k]));
  if (!residual && shown.length) {  // as far as half of what is firm on either side
    const room = (limits.high - limits.low) / 2, near = at.flatMap((k) => [own.fitted[k], middle[k]]).filter((v) => v !== null && v >= limits.low - room && v <= limits.high + room);
    limits = range([limits.low, limits.high], near);
  }
  if (!residual && Math.min(...own.observed, ...own.fitted) >= 0) limits.low = Math.max(limits.low, 0);
  const text = (k) => {
    const name = `${shortened(c.name, 24)} = ${c.numbers ? show(own.at[k]) : shortened(level(own.at[k]), 24)}`, rows = `${show(own.size[k])} ${unit}`;
    return residual ? `${name}: residual ${show(own.step[k])} ± ${show(2 * own.step_error[k])}, ${rows}` : `${name}: observed ${show(own.observed[k])}, fitted ${show(own.fitted[k])}, ${rows}`;
  };
  return { level, middle, error, known, firm, limits, text };
}

// One column: observed and fitted means of its bins, or what is left of them; bars are rows, or exposure.
function columnChart(data, own, residual) {
  const c = data.columns[own.column], bins = binned(c, own, data.diagnostics.size, residual);
  return c.numbers ? numberBins(c, own, bins, residual) : levelBins(c, own, bins, residual);
}

function numberBins(c, own, { middle, error, known, firm, limits, text }, residual) {
  const every = own.at.map((_, k) => k), order = every.filter((k) => own.at[k] !== null), missing = every.filter((k) => own.at[k] === null);
  const at = (k) => Math.min(Math.max(own.at[k], c.axis.low), c.axis.high), inside = (v) => Math.min(Math.max(v, limits.low), limits.high), span = limits.high - limits.low;
  const y = residual ? limits : { low: limits.low - 0.18 * span, high: limits.high, name: (v, tick) => (v < limits.low - 1e-9 * span ? "" : show(v, tick)) };  // bars stand below
  const f = frame({ x: axisOf(c), y, title: `Observed and fitted by ${c.name}`, zero: residual ? 0 : null }), most = Math.max(...order.map((k) => own.size[k]), 1e-300), wide = 0.8 * (f.right - f.left) / Math.max(order.length, 2);
  order.forEach((k) => f.body.append(draw("rect", { x: f.sx(at(k)) - wide / 2, width: wide, y: f.floor - 26 * own.size[k] / most, height: 26 * own.size[k] / most, fill: "var(--data)" })));
  if (!residual) order.slice(1).forEach((k, i) => line(f, [at(order[i]), at(k)], [own.fitted[order[i]], own.fitted[k]], { stroke: "var(--other)", "stroke-width": 1.8, "stroke-linecap": "round", opacity: firm(k) && firm(order[i]) ? 1 : 0.35 }));
  const points = order.map((k) => {
    const v = inside(middle[k] || 0), pale = firm(k) ? 1 : 0.35;
    if (known(k)) { stem(f, at(k), inside(middle[k] - 2 * error[k]), inside(middle[k] + 2 * error[k]), { "stroke-width": 1.3, opacity: 0.6 * pale }); dot(f, at(k), v, { opacity: pale }); }
    return { x: f.sx(at(k)), y: f.sy(v), text: text(k) };
  });
  return figure(c.name, f.root, { note: missing.map((k) => `missing: observed ${show(own.observed[k])}, fitted ${show(own.fitted[k])}`).join(""), reading: { points } });
}

// A row per level: those with most rows, highest first.
function levelBins(c, own, { level, middle, error, known, firm, limits, text }, residual) {
  const order = own.at.map((_, k) => k).sort((a, b) => (middle[b] ?? -Infinity) - (middle[a] ?? -Infinity)), left = leftOf(own.at.map(level)), H = 17, right = WIDTH - SIZES - 14, height = 14 + H * order.length + 24;
  const px = (v) => left + (right - left) * (Math.min(Math.max(v, limits.low), limits.high) - limits.low) / (limits.high - limits.low || 1), largest = Math.max(...own.size, 1e-300);
  const root = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Observed and fitted by ${c.name}` }), points = [];
  for (const v of ticks(limits.low, limits.high, 4)) {
    root.append(draw("line", { x1: px(v), x2: px(v), y1: 6, y2: height - 22, class: "axis", "stroke-width": 0.5 }));
    root.append(draw("text", { x: px(v), y: height - 8, "text-anchor": "middle" }, show(v, true)));
  }
  if (residual) root.append(draw("line", { x1: px(0), x2: px(0), y1: 6, y2: height - 22, class: "zero" }));
  order.forEach((k, i) => {
    const at = 14 + H * i, pale = firm(k) ? 1 : 0.35, name = draw("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, shortened(level(own.at[k]), 19));
    name.append(draw("title", {}, level(own.at[k])));
    root.append(name, draw("rect", { x: WIDTH - SIZES - 4, y: at - 5, width: Math.max(SIZES * own.size[k] / largest, 0.5), height: 10, fill: "var(--data)" }));
    if (known(k)) {
      root.append(draw("line", { x1: px(middle[k] - 2 * error[k]), x2: px(middle[k] + 2 * error[k]), y1: at, y2: at, stroke: "var(--accent)", "stroke-width": 1.3, opacity: 0.6 * pale }));
      root.append(draw("circle", { cx: px(middle[k]), cy: at, r: 3.5, fill: "var(--accent)", opacity: pale }));
    }
    if (!residual) root.append(draw("path", { d: `M${px(own.fitted[k])},${at - 6}v12`, stroke: "var(--other)", "stroke-width": 2.2 }));
    points.push({ x: px(middle[k] || 0), y: at, row: true, text: text(k) });
  });
  return figure(c.name, root, { reading: { points } });
}
