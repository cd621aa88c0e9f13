"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const columns = data.columns, varying = columns.map((c, j) => j).filter((j) => !columns[j].constant);

  const { phi, term, explain, predict } = evaluator(data, await numbers(data.numbers));

  // ---- drawing ----

  const show = (v) => (v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : String(+v.toPrecision(4)));
  const percent = (v) => (v >= 0.0995 ? Math.round(100 * v) + " %" : v >= 0.0005 ? (100 * v).toFixed(1) + " %" : "< 0.1 %");

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

  function ticks(low, high, count = 5) {
    if (!(high > low)) return [low];
    const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 2.5, 5, 10].find((m) => m * unit >= raw) || 10), found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) found.push(Math.abs(v) < 1e-12 * step ? 0 : v);
    return found;
  }

  // A frame with axes; levels have names under their places.
  function frame({ x, y, levels, label, title, height = 200, zero = true }) {
    const W = 330, H = height, left = 46, bottom = levels && levels.join("").length > 34 ? 62 : 34, top = 8, right = 8;
    const sx = (v) => left + (W - left - right) * (x[1] > x[0] ? (v - x[0]) / (x[1] - x[0]) : 0.5);
    const sy = (v) => H - bottom - (H - bottom - top) * (y[1] > y[0] ? (v - y[0]) / (y[1] - y[0]) : 0.5);
    const root = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
    for (const v of ticks(...y, 4)) {
      root.append(draw("line", { x1: left, x2: W - right, y1: sy(v), y2: sy(v), class: "axis", "stroke-width": 0.5 }));
      root.append(draw("text", { x: left - 5, y: sy(v) + 4, "text-anchor": "end" }, show(v)));
    }
    if (levels) {
      const slanted = levels.join("").length > 34;
      levels.forEach((name, k) => root.append(draw("text", slanted
        ? { x: sx(k), y: H - bottom + 12, "text-anchor": "end", transform: `rotate(-35 ${sx(k)} ${H - bottom + 12})` }
        : { x: sx(k), y: H - bottom + 15, "text-anchor": "middle" }, name.length > 14 ? name.slice(0, 13) + "…" : name)));
    } else for (const v of ticks(...x, 5)) root.append(draw("text", { x: sx(v), y: H - bottom + 15, "text-anchor": "middle" }, show(v)));
    if (zero && y[0] < 0 && y[1] > 0) root.append(draw("line", { x1: left, x2: W - right, y1: sy(0), y2: sy(0), class: "zero" }));
    if (label) root.append(draw("text", { x: (W + left) / 2, y: H - 4, "text-anchor": "middle" }, label));
    return { root, sx, sy, left, right: W - right, floor: H - bottom };
  }

  function figure(title, svg) {
    const box = make("figure");
    box.append(make("figcaption", {}, title), svg);
    return box;
  }

  const range = (...lists) => {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const v of list || []) { if (v < low) low = v; if (v > high) high = v; }
    const pad = 0.04 * (high - low || 1);
    return [low - pad, high + pad];
  };

  function curve(p, j) {
    const c = columns[j], e = p.effects[j], y = range(e.value, e.low, e.high), levels = c.numbers ? null : c.levels;
    const few = levels || e.x.length <= 12, pad = few && !levels ? 0.06 * (c.high - c.low) : 0;
    const x = levels ? [-0.6, levels.length - 0.4] : [c.low - pad, c.high + pad], at = levels ? e.x.map((_, k) => k) : e.x;
    const f = frame({ x, y, levels, title: `Effect of ${c.name}` });
    const clip = (v) => Math.min(Math.max(v, y[0]), y[1]);
    const path = (a, b, fill) => f.root.append(draw("path", { fill, d: "M" + at.map((v, k) => `${f.sx(v)},${f.sy(clip(a[k]))}`).join("L") + "L"
      + at.map((v, k) => `${f.sx(v)},${f.sy(clip(b[k]))}`).reverse().join("L") + "Z" }));
    if (!few && c.density) {
      const most = Math.max(...c.density), wide = (f.right - f.left) / c.density.length;
      c.density.forEach((d, k) => f.root.append(draw("rect", { x: f.left + k * wide, width: wide, y: f.floor - 18 * d / most, height: 18 * d / most, fill: "var(--data)" })));
    }
    if (!few) {
      if (e.allLow) path(e.allLow, e.allHigh, "var(--wide)");
      if (e.low) path(e.low, e.high, "var(--band)");
      f.root.append(draw("path", { fill: "none", stroke: "var(--accent)", "stroke-width": 2, d: "M" + at.map((v, k) => `${f.sx(v)},${f.sy(e.value[k])}`).join("L") }));
    } else at.forEach((v, k) => {
      if (e.low) f.root.append(draw("line", { x1: f.sx(v), x2: f.sx(v), y1: f.sy(e.low[k]), y2: f.sy(e.high[k]), stroke: "var(--accent)", "stroke-width": 3, opacity: 0.5 }));
      f.root.append(draw("circle", { cx: f.sx(v), cy: f.sy(e.value[k]), r: 4.5, fill: "var(--accent)" }));
    });
    return figure(c.name, f.root);
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

  // ---- sections ----

  let p = data.linear_predictors[0];
  const ranked = () => [...varying].sort((a, b) => p.each[b] - p.each[a]);

  function shares() {
    const most = Math.max(...p.each, 1e-12), list = $("column-shares"), strongest = $("top");
    list.replaceChildren(bar("", [], "total", 1));
    for (const j of ranked().slice(0, 20)) list.append(bar(columns[j].name, [[0, p.main[j], "main"], [p.main[j], p.each[j], "more"]], percent(p.each[j]), most, () => choose([j])));
    const key = make("p", { class: "soft" });
    key.append("solid: main effect; striped: interactions");
    list.append(key);
    strongest.replaceChildren();
    const top = p.top.slice(0, 12), largest = top.length ? top[0].share : 1;
    for (const t of top) strongest.append(bar(t.columns.map((j) => columns[j].name).join(" × "), [[0, t.share, "more"]], percent(t.share), largest, () => choose(t.columns)));
    if (!top.length) strongest.append(make("p", {}, "The model has no interactions."));
    $("order-shares").textContent = "By order: " + Object.entries(p.orders_share).map(([d, s]) => `${d}: ${percent(s)}`).join(", ");
  }

  function choose(js) {
    if (!interacts()) return;
    if (js.length < 2) { const other = ranked().find((j) => j !== js[0]); if (other === undefined) return; js = [js[0], other]; }
    $("pair-a").value = js[0];
    $("pair-b").value = js[1];
    $("pair-c").value = js.length > 2 ? js[2] : "";
    thirdChanged();
    $("pairs").scrollIntoView();
  }

  let allCurves = false;
  function curves() {
    const js = ranked(), shown = allCurves ? js : js.slice(0, 9);
    $("curves").replaceChildren(...shown.map((j) => curve(p, j)));
    $("more-curves").hidden = allCurves || js.length <= 9;
  }

  const grid = (j, count) => {
    const c = columns[j];
    if (!c.numbers) return c.levels.map((_, k) => k);
    const e = p.effects[j];
    if (e && e.x.length < count && c.whole) return e.x;
    return Array.from({ length: count }, (_, k) => c.low + (c.high - c.low) * k / (count - 1));
  };
  const said = (j, v) => (v === null ? "missing" : columns[j].numbers ? show(v) : columns[j].levels[v]);

  function colour(v) {  // white at nothing, blue below, orange-red above; readable without red and green
    const t = Math.max(-1, Math.min(1, v)), s = Math.abs(t) ** 0.8, end = t < 0 ? [5, 85, 160] : [178, 40, 20], base = [247, 247, 247];
    return base.map((b, k) => Math.round(b + (end[k] - b) * s));
  }

  const interacts = () => varying.length > 1 && p.top.length > 0;  // interactions that are rounding are not in the list

  let surface = null;
  function thirdValue() {
    const c = $("pair-c").value;
    if (c === "") return null;
    const values = grid(+c, 101);
    return { j: +c, value: values[Math.round((values.length - 1) * $("third").value / 100)] };
  }
  function heat() {
    if (!interacts()) return;
    const a = +$("pair-a").value, b = +$("pair-b").value, third = thirdValue(), everything = $("with-mains").checked, canvas = $("heat");
    const xs = grid(a, 64), ys = grid(b, 64), fa = xs.map((v) => phi(p, a, v)), fb = ys.map((v) => phi(p, b, v)), fc = third ? phi(p, third.j, third.value) : null;
    $("third-box").hidden = !third;
    if (third) $("third-value").textContent = `${columns[third.j].name} = ${said(third.j, third.value)}`;
    const values = xs.map((_, i) => ys.map((__, k) => {
      let v = term(p, [a, b], [fa[i], fb[k]]);
      if (fc) v += term(p, [a, b, third.j], [fa[i], fb[k], fc]);
      if (everything) v += fa[i][0] + fb[k][0];
      if (everything && fc) v += fc[0] + term(p, [a, third.j], [fa[i], fc]) + term(p, [b, third.j], [fb[k], fc]);
      return v;
    }));
    let most = 1e-12;
    for (const row of values) for (const v of row) most = Math.max(most, Math.abs(v));
    surface = { a, b, xs, ys, values, most };
    const ratio = window.devicePixelRatio || 1, W = canvas.clientWidth || 640, H = Math.round(0.75 * W), left = 64, bottom = 46;
    canvas.width = W * ratio;
    canvas.height = H * ratio;
    const context = canvas.getContext("2d"), w = (W - left - 8) / xs.length, h = (H - bottom - 8) / ys.length;
    const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink");
    context.scale(ratio, ratio);
    values.forEach((row, i) => row.forEach((v, k) => {
      context.fillStyle = `rgb(${colour(v / most).join(",")})`;
      context.fillRect(left + i * w, H - bottom - (k + 1) * h, w + 0.6, h + 0.6);
    }));
    context.fillStyle = ink;
    context.font = `${W < 420 ? 11 : 13}px system-ui, sans-serif`;
    context.textAlign = "center";
    const place = (j, list, v) => (columns[j].numbers && list.length > 1 ? (v - list[0]) / (list[list.length - 1] - list[0]) * (list.length - 1) : v) + 0.5;
    const marks = (j, list) => (columns[j].numbers ? (list.length <= 8 ? list : ticks(list[0], list[list.length - 1], 5)) : list.filter((_, k) => k % Math.ceil(list.length / 8) === 0));
    for (const v of marks(a, xs)) context.fillText(said(a, v).slice(0, 12), left + place(a, xs, v) * w, H - bottom + 16);
    context.fillText(columns[a].name, (left + W) / 2, H - 8);
    context.textAlign = "right";
    for (const v of marks(b, ys)) context.fillText(said(b, v).slice(0, 9), left - 6, H - bottom - place(b, ys, v) * h + 5);
    context.save();
    context.translate(14, (H - bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(columns[b].name, 0, 0);
    context.restore();
    surface.from = (x, y) => [Math.floor((x - left) / w), Math.floor((H - bottom - y) / h)];
    const stops = Array.from({ length: 11 }, (_, k) => `rgb(${colour(1 - k / 5).join(",")})`);
    const box = make("div", { style: `background:linear-gradient(${stops.join(",")})` });
    $("scale").replaceChildren(box, ...[1, 0.5, 0, -0.5, -1].map((v) => make("span", { style: `top:${4 + 84 * (1 - v) / 2}%` }, String(+(v * most).toPrecision(2)))));
    canvas.setAttribute("aria-label", `Surface of ${columns[a].name} and ${columns[b].name}, from ${show(-most)} to ${show(most)}; arrow keys read values`);
    cursor = null;
    $("readout").textContent = "Point at the surface, or focus it and use the arrow keys, to read values.";
  }
  let cursor = null;
  function read(i, k) {
    if (!surface || i < 0 || k < 0 || i >= surface.xs.length || k >= surface.ys.length) return;
    cursor = [i, k];
    $("readout").textContent = `${columns[surface.a].name} = ${said(surface.a, surface.xs[i])}, ${columns[surface.b].name} = ${said(surface.b, surface.ys[k])}: ${show(surface.values[i][k])}`;
  }

  function pairs() {
    const js = ranked();
    for (const id of ["pair-a", "pair-b", "pair-c"]) {
      $(id).replaceChildren(...(id === "pair-c" ? [make("option", { value: "" }, "none")] : []), ...js.map((j) => make("option", { value: j }, columns[j].name)));
    }
    $("pairs").hidden = js.length < 2;
    $("pairs-body").hidden = !interacts();
    $("no-pairs").hidden = interacts();
    if (!interacts()) return;
    const first = p.top[0].columns;
    $("pair-a").value = first[0];
    $("pair-b").value = first[1];
    $("pair-c").value = first.length > 2 ? first[2] : "";
    heat();
  }
  function thirdChanged() {
    const taken = [$("pair-a").value, $("pair-b").value];
    if (taken[0] === taken[1]) $("pair-b").value = ranked().find((j) => String(j) !== taken[0]);
    if (taken.includes($("pair-c").value)) $("pair-c").value = "";
    heat();
  }

  // ---- what if ----

  const typical = columns.map((c) => (c.constant ? null : c.typical));
  let row = typical.slice(), allInputs = false;
  const asCodes = (cells) => cells.map((v, j) => (v === null || columns[j].constant ? null : columns[j].numbers ? v : (columns[j].values || columns[j].levels).indexOf(v)));

  function inputs() {
    const js = ranked(), shown = allInputs ? js : js.slice(0, 12), box = $("inputs");
    box.replaceChildren();
    for (const j of shown) {
      const c = columns[j], field = make("div", { class: "field" });
      field.append(make("label", { for: `in-${j}`, title: c.name }, c.name));
      const set = (value) => { row[j] = value; answer(); };
      if (c.numbers) {
        const step = c.whole ? 1 : "any", slider = make("input", { type: "range", min: c.low, max: c.high, step: c.whole ? 1 : (c.high - c.low) / 200 || 1, "aria-label": c.name });
        const number = make("input", { type: "number", id: `in-${j}`, step });
        slider.value = row[j] ?? c.typical;
        number.value = row[j] === null ? "" : +row[j].toPrecision(6);
        slider.addEventListener("input", () => { number.value = +(+slider.value).toPrecision(6); set(+slider.value); });
        number.addEventListener("input", () => { const v = number.value === "" ? null : +number.value; if (v !== null) slider.value = v; set(v); });
        field.append(slider, number);
      } else {
        const list = make("select", { id: `in-${j}` });
        c.levels.forEach((name, k) => list.append(make("option", { value: k }, name)));
        list.append(make("option", { value: "" }, "missing"));
        list.value = row[j] === null ? "" : row[j];
        list.addEventListener("input", () => set(list.value === "" ? null : +list.value));
        field.append(list);
      }
      box.append(field);
    }
    $("more-inputs").hidden = allInputs || js.length <= 12;
  }

  function answer() {
    const found = predict(row), own = explain(p, row), k = data.linear_predictors.indexOf(p);
    window.ahofm.last = found;
    if (Array.isArray(found.mean)) $("prediction").textContent = `${data.classes[k]}: ${(100 * found.mean[k]).toFixed(1)} %`;
    else if (data.classes) $("prediction").textContent = `${data.classes[1]}: ${(100 * found.mean).toFixed(1)} %`;
    else $("prediction").textContent = show(found.mean);
    $("prediction-note").textContent = `linear predictor ${show(own.eta)}; the mean row has ${show(p.base)}`;
    const order = varying.slice().sort((a, b) => Math.abs(own.shares[b]) - Math.abs(own.shares[a])), shown = order.slice(0, 12);
    const most = 2 * Math.max(...own.shares.map(Math.abs), 1e-12);
    const line = (name, v) => bar(name, [v < 0 ? [most / 2 + v, most / 2, "more"] : [most / 2, most / 2 + v, "main"]], (v > 0 ? "+" : "") + show(v), most);
    $("parts").replaceChildren(...shown.map((j) => line(`${columns[j].name} = ${said(j, row[j])}`, own.shares[j])));
    const rest = order.slice(12).reduce((total, j) => total + own.shares[j], 0);
    if (order.length > 12) $("parts").append(line(`${order.length - 12} more`, rest));
  }

  function whatif() {
    const list = $("start-row");
    if (!list.options.length) {
      list.append(make("option", { value: "" }, "a typical row"));
      data.rows.forEach((_, k) => list.append(make("option", { value: k }, `row ${k + 1} of training, from low to high`)));
    }
    inputs();
    answer();
  }

  // ---- checks and the fit ----

  function checks() {
    const d = data.diagnostics;
    if (!d) { $("diagnostics").hidden = true; document.querySelector('nav a[href="#diagnostics"]').hidden = true; return; }
    const dots = (f, xs, ys, r, opacity) => xs.forEach((v, k) => f.root.append(draw("circle", { cx: f.sx(v), cy: f.sy(ys[k]), r, fill: "var(--accent)", opacity })));
    const line = (f, low, high) => f.root.append(draw("line", { x1: f.sx(low), y1: f.sy(low), x2: f.sx(high), y2: f.sy(high), class: "zero" }));
    const one = frame({ x: range(d.predicted), y: range(d.residual), label: "predicted mean", title: "Residuals against predictions", height: 230 });
    dots(one, d.predicted, d.residual, 2, 0.4);
    const both = range(d.normal, d.ordered), two = frame({ x: both, y: both, label: "normal quantile", title: "Quantiles of residuals", height: 230 });
    line(two, ...both);
    dots(two, d.normal, d.ordered, 2, 0.7);
    const xs = d.calibration.map((c) => c[0]), ys = d.calibration.map((c) => c[1]), es = d.calibration.map((c) => c[2]);
    const span = range(xs, ys.map((v, k) => v - es[k]), ys.map((v, k) => v + es[k])), three = frame({ x: span, y: span, label: "predicted mean", title: "Calibration", height: 230 });
    line(three, ...span);
    xs.forEach((v, k) => three.root.append(draw("line", { x1: three.sx(v), x2: three.sx(v), y1: three.sy(ys[k] - es[k]), y2: three.sy(ys[k] + es[k]), stroke: "var(--accent)" })));
    dots(three, xs, ys, 3.5, 1);
    $("checks").replaceChildren(figure("quantile residuals", one.root), figure("against the normal distribution", two.root), figure("observed means", three.root));
  }

  function fit() {
    const f = data.fit;
    $("ended").textContent = `${f.ended}. ` + Object.entries(f.seconds).map(([name, s]) => `${name} ${show(s)} s`).join(", ");
    $("choices").replaceChildren(...f.choices.map(([name, value, why]) => make("p", {}, `${name}: ${value} (${why})`)), ...(f.validated ? [make("p", {}, f.validated)] : []));
    $("fit-orders").replaceChildren(table(f.orders));
    $("fit-columns").replaceChildren(table(f.columns));
    if (f.trace.length > 1) {
      const xs = f.trace.map((t) => t[0]), ys = f.trace.map((t) => t[1]), chart = frame({ x: range(xs), y: range(ys), label: "iteration", title: "Trace of the fit", height: 200 });
      f.trace.forEach(([x, y]) => chart.root.append(draw("circle", { cx: chart.sx(x), cy: chart.sy(y), r: 1.6, fill: "var(--accent)" })));
      const box = figure("objective", chart.root);
      box.style.maxWidth = "420px";
      $("trace").replaceChildren(box);
    }
    $("version").textContent = `ahofm ${f.version}. Shares and Shapley values average over columns as if they were independent.`;
  }

  // ---- begin ----

  $("title").textContent = data.title;
  $("subtitle").textContent = `${data.family}, predicting ${data.target}`;
  $("facts").replaceChildren(...data.facts.map(([value, label]) => { const li = make("li"); li.append(make("b", {}, value), make("span", {}, label)); return li; }));
  $("warnings").replaceChildren(...data.warnings.map((text) => make("p", { class: "warning" }, text)));
  window.ahofm = { data, predict: (cells) => predict(asCodes(cells)), explain: (k, cells) => explain(data.linear_predictors[k], asCodes(cells)), last: null };
  if (data.linear_predictors.length > 1) {
    $("class-choice").hidden = false;
    $("class-choice").firstChild.textContent = data.classes ? "class " : "linear predictor ";
    data.linear_predictors.forEach((one, k) => $("linear-predictor").append(make("option", { value: k }, one.name)));
  }
  const all = () => { shares(); curves(); pairs(); whatif(); };
  $("linear-predictor").addEventListener("input", (event) => { p = data.linear_predictors[+event.target.value]; all(); });
  $("more-curves").addEventListener("click", () => { allCurves = true; curves(); });
  $("more-inputs").addEventListener("click", () => { allInputs = true; inputs(); });
  for (const id of ["pair-a", "pair-b", "pair-c"]) $(id).addEventListener("input", thirdChanged);
  for (const id of ["third", "with-mains"]) $(id).addEventListener("input", heat);
  $("start-row").addEventListener("input", (event) => { row = event.target.value === "" ? typical.slice() : asCodes(data.rows[+event.target.value]); whatif(); });
  $("heat").addEventListener("pointermove", (event) => {
    const box = $("heat").getBoundingClientRect();
    read(...surface.from(event.clientX - box.left, event.clientY - box.top));
  });
  $("heat").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, k] = cursor || [surface.xs.length >> 1, surface.ys.length >> 1];
    read(i + step[0], k + step[1]);
  });
  let resized = 0;
  window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(heat, 150); });
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    heat();
  });
  all();
  checks();
  fit();
  document.documentElement.dataset.ready = "yes";
})();
