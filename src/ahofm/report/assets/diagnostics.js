// Predictions beside what was observed.

const errorBars = (f, d, k) => stem(f, d.at[k], d.observed[k] - 2 * d.error[k], d.observed[k] + 2 * d.error[k], { "stroke-width": 1.2 });

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

// One column: observed and fitted means of its bins, or what is left of them; bars are rows, or exposure.
function columnChart(data, own, residual) {
  const c = data.columns[own.column], count = own.at.length, unit = data.diagnostics.size, level = (v) => (v === null ? "missing" : String(v));
  let order = own.at.map((_, k) => k);
  if (!c.numbers) order.sort((a, b) => own.observed[b] - own.observed[a]);
  const numeric = c.numbers, missing = numeric ? order.filter((k) => own.at[k] === null) : [];
  if (numeric) order = order.filter((k) => own.at[k] !== null);
  const axis = numeric ? axisOf(c) : { low: -0.6, high: count - 0.4, marks: order.map((_, i) => i), name: (i) => shortened(level(own.at[order[i]]), Math.max(3, Math.floor(44 / count))) };
  const at = (k) => (numeric ? Math.min(Math.max(own.at[k], c.axis.low), c.axis.high) : order.indexOf(k));
  const low = (k) => (residual ? own.step[k] - 2 * own.step_error[k] : own.observed[k] - 2 * own.error[k]), high = (k) => (residual ? own.step[k] + 2 * own.step_error[k] : own.observed[k] + 2 * own.error[k]);
  const middle = (k) => (residual ? own.step[k] : own.observed[k]), sizes = order.map((k) => own.size[k]), typical = [...sizes].sort((a, b) => b - a)[Math.floor(sizes.length / 2)] || 0;
  const firm = order.filter((k) => own.size[k] >= 0.2 * typical), y = range(firm.map(low), firm.map(high), order.map(middle), residual ? [0] : order.map((k) => own.fitted[k]));
  const limits = residual ? y : { low: y.low - 0.18 * (y.high - y.low), high: y.high };
  const f = frame({ x: axis, y: limits, title: `Observed and fitted by ${c.name}`, zero: residual ? 0 : null }), most = Math.max(...sizes, 1e-300), wide = 0.8 * (f.right - f.left) / Math.max(order.length, 2);
  order.forEach((k) => f.body.append(draw("rect", { x: f.sx(at(k)) - wide / 2, width: wide, y: f.floor - 30 * own.size[k] / most, height: 30 * own.size[k] / most, fill: "var(--data)" })));
  if (!residual) {
    if (numeric) line(f, order.map(at), order.map((k) => own.fitted[k]), { stroke: "var(--other)", "stroke-width": 1.8 });
    else order.forEach((k) => f.body.append(draw("path", { d: `M${f.sx(at(k)) - 6},${f.sy(own.fitted[k])}h12`, stroke: "var(--other)", "stroke-width": 2.2 })));
  }
  const points = order.map((k) => {
    if (middle(k) !== null) { stem(f, at(k), low(k), high(k), { "stroke-width": 1.3 }); dot(f, at(k), middle(k)); }
    const name = `${shortened(c.name, 24)} = ${numeric ? show(own.at[k]) : shortened(level(own.at[k]), 24)}`, rows = `${show(own.size[k])} ${unit}`;
    return { x: f.sx(at(k)), y: f.sy(middle(k) || 0), text: residual ? `${name}: residual ${show(own.step[k])} ± ${show(2 * own.step_error[k])}, ${rows}` : `${name}: observed ${show(own.observed[k])}, fitted ${show(own.fitted[k])}, ${rows}` };
  });
  const absent = missing.map((k) => `missing: observed ${show(own.observed[k])}, fitted ${show(own.fitted[k])}`).join("");
  return figure(c.name, f.root, { note: absent, reading: { points } });
}
