// The page: sections of one report inside `root`, a document or a shadow root.
async function report(root, data) {
  const $ = (id) => root.getElementById(id), { columns } = data, varying = columns.map((_, j) => j).filter((j) => !columns[j].constant);
  const packed = await numbers(data.numbers), model = evaluator(data.model, packed), standardError = await intervals(data.band, packed);
  columns.forEach((c) => { c.name = undirected(c.name); });
  const { link, response } = data, likely = data.classes !== null;
  const isDark = () => (themed.dataset.theme ? themed.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const themed = root.documentElement || root.host, style = () => getComputedStyle(root.querySelector(".ahofm"));
  let at = data.start, scale = "link", row = null, allCurves = false, allInputs = false, allColumns = false;
  const own = () => data.predictors[at], linear = () => data.model.linear_predictors[at];
  const ranked = () => [...varying].sort((a, b) => own().each[b] - own().each[a]);
  const said = (j, v) => (v === null ? "missing" : columns[j].numbers ? show(v) : v < 0 ? "not in training" : columns[j].levels[v]);
  const interacts = () => varying.length > 1 && own().top.length > 0;  // interactions that are rounding are not in the list

  // ---- scales ----

  const per = data.exposed ? " per unit of exposure" : "", predicted = response.name;
  const chances = [["response", likely || link === "softmax" ? "probability" : predicted], ["factor", "odds ratio"], ["link", "log-odds"]];
  const known = {
    identity: [["link", `change of the ${predicted}`], ["response", predicted]],
    log: [["factor", `factor of the ${predicted}${per}`], ["response", `${predicted}${per}`], ["link", "logarithm of the factor"]],
    logit: chances,
    softmax: chances,
    inverse: [["link", `change of 1 / ${predicted}`], ["response", predicted]],
    levels: [["factor", "odds ratio of higher levels"], ["response", predicted], ["link", "log-odds"]],
    deviation: [["factor", "factor of the standard deviation"], ["link", "logarithm of the factor"]],
    count: [["factor", `factor of the count${per}`], ["link", "logarithm of the factor"]],
    zeros: [["factor", "odds ratio of a zero"], ["link", "log-odds of a zero"]],
  };
  const partLink = () => response.parts[at] ?? link, scales = () => known[partLink()] || [["link", "linear predictor"]];
  function scaleChoice() {
    if (!scales().some(([name]) => name === scale)) scale = scales()[0][0];
    $("scale-choice").replaceChildren(...scales().map(([name, text]) => make("option", { value: name }, text)));
    $("scale-choice").value = scale;
    $("scale-box").hidden = scales().length < 2;
  }
  const pick = (mean) => (Array.isArray(mean) ? mean[at] : mean);
  const asResponse = (v) => pick(model.mean(data.model.linear_predictors.map((p, k) => p.base + (k === at ? v : 0))));
  const transform = (v) => (scale === "link" ? v : scale === "factor" ? Math.exp(v) : asResponse(v));
  // Standard deviations in units of the target: as they are, as a factor, or of a probability around the mean row's.
  function inUnits(std, most) {
    const kind = partLink();
    if (kind === "identity" || kind === "other") return `± ${alike(std, most)}`;
    if (["log", "deviation", "count", "zeros"].includes(kind)) return `× ÷ ${Math.exp(std).toFixed(2)}`;
    const size = Math.abs(asResponse(std) - asResponse(-std)) / 2;
    if (likely) return size < 0.0005 ? "< 0.1 pts" : `± ${(100 * size).toFixed(1)} pts`;
    return `± ${alike(size, Math.abs(asResponse(most) - asResponse(-most)) / 2)}`;
  }

  // What `inUnits` is about, in words.
  function moved() {
    const kind = partLink();
    if (kind === "identity") return `the ${predicted}`;
    if (kind === "other") return "the linear predictor";
    if (kind === "deviation") return "the standard deviation of the noise, as a factor";
    if (kind === "count") return "the count, as a factor";
    if (kind === "zeros") return "the odds of a zero, as a factor";
    if (kind === "log") return `the ${predicted}, as a factor`;
    return likely ? "the probability, in percentage points (pts)" : `the ${predicted}`;
  }

  // ---- what matters ----

  function shares() {
    const p = own(), most = Math.max(...p.each, 1e-12), farthest = Math.max(...p.std.filter(Number.isFinite), 0), list = $("column-shares"), strongest = $("top");
    const top = p.top.slice(0, 12), largest = top.length ? top[0].share : 1;
    list.replaceChildren();
    for (const j of ranked().slice(0, 20)) list.append(bar(columns[j].name, [[0, p.main[j], "main"], [p.main[j], p.each[j], "more"]], `${percent(p.each[j])} · ${inUnits(p.std[j], farthest)}`, most, () => choose([j])));
    if (top.length) list.append(make("p", { class: "soft" }, "Solid: main effect; striped: interactions."));
    $("shares-note").textContent = `Share of the variance of the linear predictor, as if columns were independent; and how far one standard deviation of the effect moves ${moved()}.${top.length ? " An interaction counts for each of its columns." : ""}`;
    strongest.replaceChildren();
    for (const t of top) strongest.append(bar(t.columns.map((j) => columns[j].name).join(" × "), [[0, t.share, "more"]], `${percent(t.share)} · ${inUnits(t.std, top[0].std)}`, largest, () => choose(t.columns)));
    $("top-box").hidden = !top.length;
    $("order-shares").textContent = "By order: " + Object.entries(p.orders).map(([d, s]) => `${d}: ${percent(s)}`).join(", ");
  }
  function choose(js) {
    if (!interacts()) return;
    if (js.length < 2) { const other = ranked().find((j) => j !== js[0]); if (other === undefined) return; js = [js[0], other]; }
    ["pair-a", "pair-b", "pair-c"].forEach((id, k) => { $(id).value = js[k] ?? ""; });
    pairChanged();
    $("pairs").scrollIntoView();
  }

  // ---- effects ----

  const groupOf = () => (data.diagnostics ? data.diagnostics.groups[Math.min(at, data.diagnostics.groups.length - 1)] : null);
  function partialOf(j) {
    const found = new Map(), group = groupOf(), bins = $("residuals").checked && group ? group.columns.find((one) => one.column === j) : null;
    if (bins) bins.at.forEach((v, k) => { if (v !== null && bins.partial[k] !== null) found.set(columns[j].numbers ? v : String(v), bins.partial[k]); });
    return found;
  }
  function curves() {
    const js = ranked(), shown = allCurves ? js : js.slice(0, 9), neutral = scale === "link" ? 0 : scale === "factor" ? 1 : transform(0);
    const most = Math.hypot(...own().std.filter(Number.isFinite)), settings = (j) => ({ transform, neutral, most, full: $("full").checked, partial: partialOf(j), unit: "" });
    $("curves").replaceChildren(...shown.map((j) => effectFigure(columns[j], own().effects[j], settings(j))));
    $("more-curves").hidden = allCurves || js.length <= 9;
    $("more-curves").textContent = `Show all ${js.length} columns`;
    $("residuals-box").hidden = !data.diagnostics;
    $("full-box").hidden = !varying.some((j) => columns[j].numbers && columns[j].axis.beyond > 0);
  }

  // ---- pairs ----

  let surface = null, cursor = null, mainsChosen = false;
  function third() {
    const c = $("pair-c").value;
    if (c === "") return null;
    const { values } = sideOf(columns[+c], 101);
    return { j: +c, value: values[Math.round((values.length - 1) * $("third").value / 100)] };
  }
  function pairView() {
    if (!interacts()) return;
    let a = +$("pair-a").value, b = +$("pair-b").value;
    const one = { j: a, ...sideOf(columns[a], 48) }, two = { j: b, ...sideOf(columns[b], 48) }, lines = one.few || two.few, p = linear(), c = third();
    const [across, up] = lines && one.few && !(two.few && two.values.length < one.values.length) ? [two, one] : [one, two];
    [a, b] = [across.j, up.j];
    if (!mainsChosen) $("with-mains").checked = lines;
    const everything = $("with-mains").checked, fa = across.values.map((v) => model.phi(p, a, v)), fb = up.values.map((v) => model.phi(p, b, v)), fc = c ? model.phi(p, c.j, c.value) : null;
    $("third-box").hidden = !c;
    if (c) $("third-value").textContent = `${shortened(columns[c.j].name, 24)} = ${said(c.j, c.value)}`;
    const value = (i, k) => {
      let v = model.term(p, [a, b], [fa[i], fb[k]]);
      if (fc) v += model.term(p, [a, b, c.j], [fa[i], fb[k], fc]);
      if (everything) v += fa[i][0] + fb[k][0];
      if (everything && fc) v += fc[0] + model.term(p, [a, c.j], [fa[i], fc]) + model.term(p, [b, c.j], [fb[k], fc]);
      return v;
    };
    $("lines").hidden = !lines;
    $("surface").hidden = lines;
    $("readout").hidden = lines;
    const shown = everything || scale !== "response" ? transform : (v) => v, note = scales().find(([name]) => name === (scale === "response" && !everything ? "link" : scale))[1];
    $("pair-note").textContent = `${everything ? "Everything that depends on these columns alone" : "What the columns add together beyond their own effects"}: ${note}.${lines ? "" : " Faded: hardly any rows."}`;
    if (lines) { $("lines").replaceChildren(pairLines(data, across, up, up.values.map((_, k) => across.values.map((__, i) => shown(value(i, k)))), Math.max(Math.min($("pairs").clientWidth, 760) - 20, 300))); return; }
    const values = across.values.map((_, i) => up.values.map((__, k) => value(i, k))), canvas = $("heat"), seen = occupancy(data, a, b);
    surface = { across, up, values, shown, ...heatMap(canvas, data, across, up, values, seen, { ink: style().getPropertyValue("--ink"), card: style().getPropertyValue("--card"), dark: isDark() }) };
    const stops = Array.from({ length: 11 }, (_, k) => `rgb(${heatColour(1 - k / 5, isDark()).join(",")})`), box = make("div", { style: `background:linear-gradient(${stops.join(",")})` });
    $("scale").replaceChildren(box, ...[1, 0.5, 0, -0.5, -1].map((v) => make("span", { style: `top:${4 + 84 * (1 - v) / 2}%` }, show(+shown(v * surface.most).toPrecision(2), true))));
    canvas.setAttribute("aria-label", `Surface of ${columns[a].name} and ${columns[b].name}; arrow keys read values`);
    cursor = null;
    $("readout").textContent = "Point at the surface, or focus it and use the arrow keys, to read values.";
  }
  function read(i, k) {
    if (!surface || i < 0 || k < 0 || i >= surface.across.values.length || k >= surface.up.values.length) return;
    cursor = [i, k];
    const name = (side, v) => `${columns[side.j].name} = ${said(side.j, v)}`;
    $("readout").textContent = `${name(surface.across, surface.across.values[i])}, ${name(surface.up, surface.up.values[k])}: ${show(surface.shown(surface.values[i][k]))}`;
  }
  function pairs() {
    const js = ranked(), entry = root.querySelector('nav a[href="#pairs"]');
    $("pairs").hidden = entry.hidden = !interacts();
    if (!interacts()) return;
    for (const id of ["pair-a", "pair-b", "pair-c"]) $(id).replaceChildren(...(id === "pair-c" ? [make("option", { value: "" }, "none")] : []), ...js.map((j) => make("option", { value: j }, shortened(columns[j].name, 40))));
    ["pair-a", "pair-b", "pair-c"].forEach((id, k) => { $(id).value = own().top[0].columns[k] ?? ""; });
    pairView();
  }
  function pairChanged() {
    const taken = [$("pair-a").value, $("pair-b").value];
    if (taken[0] === taken[1]) $("pair-b").value = ranked().find((j) => String(j) !== taken[0]);
    if (taken.includes($("pair-c").value)) $("pair-c").value = "";
    pairView();
  }

  // ---- what if ----

  const typical = columns.map((c) => (c.constant ? null : c.typical)), start = { actual: null, offset: [], name: "" };
  row = typical.slice();
  const asCodes = (cells) => cells.map((v, j) => (v === null || columns[j].constant ? null : columns[j].numbers ? v : (columns[j].values || columns[j].levels).indexOf(v)));

  function levelField(c, j, set) {
    const many = c.levels.length > 200;  // a list of thousands is no choice: type
    const list = make(many ? "input" : "select", { id: `in-${j}`, ...(many ? { list: `levels-${j}`, placeholder: "missing" } : {}) });
    if (many) {
      const all = make("datalist", { id: `levels-${j}` });
      c.levels.forEach((name) => all.append(make("option", { value: name })));
      list.value = row[j] === null ? "" : c.levels[row[j]] ?? "";
      list.addEventListener("input", () => { const k = c.levels.indexOf(list.value); if (k >= 0 || list.value === "") set(list.value === "" ? null : k); });
      return [list, all];
    }
    c.levels.forEach((name, k) => list.append(make("option", { value: k }, shortened(name, 60))));
    list.append(make("option", { value: "" }, "missing"));
    list.value = row[j] === null ? "" : row[j];
    list.addEventListener("input", () => set(list.value === "" ? null : +list.value));
    return [list];
  }
  function numberField(c, j, set) {
    const { low, high } = c.axis, steps = 200, log = c.axis.scale === "log";
    const there = (v) => (log ? steps * Math.log(v / low) / Math.log(high / low) : v), back = (s) => (log ? low * (high / low) ** (s / steps) : s);
    const slider = make("input", log ? { type: "range", min: 0, max: steps, step: 1, "aria-label": c.name } : { type: "range", min: low, max: high, step: c.whole ? 1 : (high - low) / steps || 1, "aria-label": c.name });
    const number = make("input", { type: "number", id: `in-${j}`, step: c.whole ? 1 : "any", placeholder: "missing" });
    slider.value = there(row[j] ?? c.typical);
    number.value = row[j] === null ? "" : Math.abs(row[j]) >= 1e4 ? Math.round(row[j]) : +row[j].toPrecision(4);  // what fits; the row keeps all digits
    slider.addEventListener("input", () => { const v = +back(+slider.value).toPrecision(4); number.value = c.whole ? Math.round(v) : v; set(+number.value); });
    number.addEventListener("input", () => { const v = number.value === "" ? null : +number.value; if (v !== null) slider.value = there(v); set(v); });
    return [slider, number];
  }
  function inputs() {
    const js = ranked(), shown = allInputs ? js : js.slice(0, 12);
    $("inputs").replaceChildren(...shown.map((j) => {
      const c = columns[j], field = make("div", { class: "field" }), set = (value) => { row[j] = value; answer(); };
      field.append(make("label", { for: `in-${j}`, title: c.name }, c.name), ...(c.numbers ? numberField(c, j, set) : levelField(c, j, set)));
      return field;
    }));
    $("more-inputs").hidden = allInputs || js.length <= 12;
    $("more-inputs").textContent = `Show all ${js.length} columns`;
  }

  const shownMean = (v) => (likely ? `${(100 * v).toFixed(1)} %` : show(v));
  function interval(found) {
    if (!standardError || link === "zero_inflated") return null;  // a mean of two linear predictors
    const k = likely ? at : 0, half = 1.959964 * standardError(k, row, columns);
    return [-half, half].map((step) => pick(model.mean(found.etas.map((e, own) => e + (own === k ? step : 0))))).sort((a, b) => a - b);
  }
  // The strongest terms of the row: main effects, and the interactions of the list above.
  function terms() {
    const p = linear(), functions = row.map((v, j) => model.phi(p, j, v));
    return [...varying.map((j) => [j]), ...own().top.map((t) => t.columns)].map((js) => ({ name: js.length === 1 ? `${columns[js[0]].name} = ${said(js[0], row[js[0]])}` : js.map((j) => columns[j].name).join(" × "), value: model.term(p, js, js.map((j) => functions[j])) }));
  }
  function answer() {
    const found = model.predict(row, start.offset), why = model.explain(linear(), row), ends = interval(found), name = data.classes ? data.classes[data.predictors.length > 1 ? at : 1] : "";
    handle.last = { ...found, interval: ends };
    const what = link === "other" ? "linear predictor" : likely ? "probability" : predicted;
    $("prediction").textContent = `${name ? (data.target === "the target" ? "" : `${shortened(data.target, 24)} = `) + shortened(name, 40) + ": " : what === "mean" || likely ? "" : `${what} `}${shownMean(pick(found.mean))}`;
    const notes = [ends ? `95 % interval of the ${what}${start.offset.length || link === "other" ? "" : per}: ${shownMean(ends[0])} to ${shownMean(ends[1])}` : data.band || link === "zero_inflated" ? "" : "no interval: the band of this model is too large for a page"];
    if (start.actual !== null) notes.push(`${start.name}: actual ${typeof start.actual === "number" ? show(start.actual) : start.actual}`);
    if (start.offset.length) notes.push(`with the row's offset ${start.offset.map((v) => show(v)).join(", ")}`);
    $("prediction-note").textContent = notes.filter(Boolean).join(" · ");
    const several = Array.isArray(found.mean), chance = several ? found.mean : response.levels.length ? model.levelProbabilities(found.etas[0]) : [], order = chance.map((_, k) => k);
    if (several) order.sort((x, y) => chance[y] - chance[x]);
    $("class-bars").replaceChildren(...order.slice(0, several ? 8 : 20).map((k) => bar(several ? data.classes[k] : `level ${response.levels[k]}`, [[0, chance[k], several && k !== at ? "more" : "main"]], percent(chance[k]), 1)));
    const parts = $("by-terms").checked ? terms() : varying.map((j) => ({ name: `${columns[j].name} = ${said(j, row[j])}`, value: why.shares[j] }));
    parts.sort((x, y) => Math.abs(y.value) - Math.abs(x.value));
    const shown = parts.slice(0, 12), base = linear().base, rest = why.eta - base - shown.reduce((total, part) => total + part.value, 0), largest = Math.max(...parts.map((part) => Math.abs(part.value))), most = 2 * Math.max(largest, 1e-12);
    const bars_ = (label, v) => bar(label, [v < 0 ? [most / 2 + Math.max(v, -most / 2), most / 2, "more"] : [most / 2, most / 2 + Math.min(v, most / 2), "main"]], scale === "factor" ? `× ${show(Math.exp(v))}` : signed(v, Math.max(largest, 1e-12 * Math.abs(base))), most);
    $("parts").replaceChildren(...shown.map((part) => bars_(part.name, part.value)));
    if (parts.length > 12 || Math.abs(rest) > 1e-6 * most) $("parts").append(bars_("all others", rest));
    $("parts").append(make("p", { class: "soft" }, `Solid: upwards; striped: downwards. ${sumOf(base, why.eta)}`));
  }
  // What the bars of a row add up to, or multiply to.
  function sumOf(base, eta) {
    const all = `× ${show(Math.exp(eta - base))} in all`, stands = { log: `a ${predicted}${per}`, logit: "odds", deviation: "a standard deviation", count: "a count", zeros: "odds of a zero" }[partLink()];
    if (scale === "factor" && stands) return `These factors multiply: ${all}, from ${stands} of ${show(Math.exp(base))} at the average of the linear predictor to ${show(Math.exp(eta))} for this row.`;
    if (scale === "factor") return `These factors multiply: ${all}.`;
    const what = link === "identity" && data.predictors.length === 1 && predicted === "mean" ? "prediction" : "linear predictor";
    return `These are parts of the ${what}, which is ${show(base)} on average and ${show(eta)} for this row.`;
  }
  function whatif() {
    const list = $("start-row");
    if (!list.options.length) {
      list.append(make("option", { value: "" }, "a typical row"));
      data.rows.forEach((one, k) => list.append(make("option", { value: k }, `row ${one.number.toLocaleString("en")}: actual ${typeof one.actual === "number" ? show(one.actual) : shortened(one.actual, 20)}`)));
    }
    inputs();
    answer();
  }
  function startFrom(k) {
    const one = k === "" ? null : data.rows[+k];
    row = one ? asCodes(one.cells) : typical.slice();
    Object.assign(start, { actual: one ? one.actual : null, offset: (one && one.offset) || [], name: one ? `row ${one.number.toLocaleString("en")}` : "" });
    whatif();
  }

  // ---- a link that carries the state ----

  const stateText = () => "what-if=" + encodeURIComponent(JSON.stringify({ row, predictor: at, scale }));
  function restore(hash) {
    if (!hash.startsWith("#what-if=")) return;
    try {
      const state = JSON.parse(decodeURIComponent(hash.slice(9))), fits = (v, j) => v === null || (Number.isFinite(v) && (columns[j].numbers || (Number.isInteger(v) && v >= -1 && v < columns[j].levels.length)));
      if (!Array.isArray(state.row) || state.row.length !== columns.length || !state.row.every(fits)) return;
      row = state.row;
      if (data.predictors[state.predictor]) at = state.predictor;
      scale = state.scale;
      $("linear-predictor").value = at;
      scaleChoice();
      all();
      $("whatif").scrollIntoView();
    } catch { /* a link to something else */ }
  }

  // ---- diagnostics, checks, how it was made ----

  function diagnostics() {
    const group = groupOf(), entry = root.querySelector('nav a[href="#diagnostics"]');
    $("bycolumn").hidden = root.querySelector('nav a[href="#bycolumn"]').hidden = !group;
    $("diagnostics").hidden = entry.hidden = !group && !data.censored;
    $("residual-words").hidden = !group;
    if (data.censored) $("diagnostics-note").textContent = "Times may be censored: there are no observed means to compare with fitted ones. Methods concordance and brier_score of the estimator compare predictions with censored times.";
    if (!group) return;
    const residuals = data.predictors.length === 1 || !data.classes ? data.diagnostics.residuals : null, shown = allColumns ? group.columns : group.columns.slice(0, 9);
    $("checks").replaceChildren(...wholeCharts(data, group, residuals));
    $("columns").replaceChildren(...shown.map((one) => columnChart(data, one, $("left-over").checked)));
    $("more-columns").hidden = allColumns || group.columns.length <= 9;
    const { rows, held_out: unseen } = data.diagnostics, all = unseen ? null : data.made.rows, some = all !== null && all > rows ? `${rows.toLocaleString("en")} of the ${all.toLocaleString("en")}` : rows.toLocaleString("en");
    $("diagnostics-note").textContent = `${some} rows ${unseen ? "that were not fitted" : "of training"}${group.name ? `, class “${group.name}” against all others` : ""}.${unseen ? "" : " Rows that were not fitted look less good: report --rows, or report(X=..., y=...), shows them here."}`;
  }
  function concerns() {
    const wrong = data.checks.filter((one) => !one.passed), fine = data.checks.filter((one) => one.passed);
    $("concerns").replaceChildren(...wrong.map((one) => {
      const box = make("details", { class: "warning" });
      box.append(make("summary", {}, `${one.code.replaceAll("_", " ")}: ${one.found[0]}${one.found.length > 1 ? ` (and ${one.found.length - 1} more)` : ""}`));
      one.found.slice(1).forEach((text) => box.append(make("p", {}, text)));
      const more = make("p"), where = `checks.html#${one.code}`;
      more.append(make("b", {}, "What it means. "), one.meaning + " ", make("b", {}, "What to do. "), one.remedy + " ");
      more.append(data.documentation ? make("a", { href: `${data.documentation.replace(/\/$/, "")}/${where}`, rel: "noopener" }, "documentation") : make("span", { class: "soft" }, `docs/checks.md#${one.code}`));
      box.append(more);
      return box;
    }));
    if (fine.length) $("concerns").append(make("p", { class: "soft" }, `Checked and fine: ${fine.map((one) => one.code.replaceAll("_", " ")).join(", ")}.`));
  }
  function fit() {
    const m = data.made, list = $("made"), add = (name, value) => { if (value) list.append(make("dt", {}, name), make("dd", {}, value)); };
    list.replaceChildren();
    add("family", `${m.family_words} · ${m.family}`);
    add("rows", m.rows === null ? "not at hand" : m.rows.toLocaleString("en"));
    add("command", m.command);
    add("settings", m.settings);
    add("score", m.validated);
    m.choices.forEach((one) => add(one.name === "interactions" ? "averaged fits" : one.name, `${one.value} (${one.reason})`));
    m.edits.forEach((text) => add("edit", text));
    add("how it ended", `${m.ended}; ` + Object.entries(m.seconds).map(([name, s]) => `${name} ${show(s)} s`).join(", "));
    add("made with", `${m.date}, ahofm ${m.version}, Python ${m.python}, NumPy ${m.numpy}`);
    $("fit-orders").replaceChildren(table(data.fit.orders));
    const every = data.fit.columns, most = 40;
    $("fit-columns").replaceChildren(table(every.slice(0, most + 1)));
    if (every.length > most + 1) {
      const rest = make("details"), head = make("summary", { class: "soft" }, `the other ${every.length - most - 1} columns`);
      rest.append(head, table([every[0], ...every.slice(most + 1)]));
      $("fit-columns").append(rest);
    }
  }

  // ---- begin ----

  const handle = { data, predict: (cells) => model.predict(asCodes(cells)), explain: (k, cells) => model.explain(data.model.linear_predictors[k], asCodes(cells)), standardError: (k, cells) => standardError && standardError(k, asCodes(cells), columns), last: null };
  const effectParts = () => { shares(); curves(); pairs(); };
  const all = () => { effectParts(); whatif(); diagnostics(); };
  $("title").textContent = data.title;
  $("subtitle").textContent = `${data.target}: ${data.made.family_words}`;
  $("facts").replaceChildren(...data.facts.map(({ value, label }) => { const li = make("li"); li.append(make("b", {}, value), make("span", {}, label)); return li; }));
  scale = scales()[0][0];
  scaleChoice();
  if (data.predictors.length > 1) {
    $("class-choice").hidden = false;
    $("class-choice").firstChild.textContent = data.classes ? "class " : "of the ";
    data.predictors.forEach((one, k) => $("linear-predictor").append(make("option", { value: k }, shortened(one.name, 40))));
    $("linear-predictor").value = at;
  }
  const on = (id, action, event = "input") => $(id).addEventListener(event, action);
  on("linear-predictor", (event) => { at = +event.target.value; scaleChoice(); all(); });
  on("scale-choice", (event) => { scale = event.target.value; curves(); pairView(); answer(); });
  on("full", curves);
  on("residuals", curves);
  on("more-curves", () => { allCurves = true; curves(); }, "click");
  on("more-inputs", () => { allInputs = true; inputs(); }, "click");
  on("more-columns", () => { allColumns = true; diagnostics(); }, "click");
  on("left-over", diagnostics);
  on("by-terms", answer);
  for (const id of ["pair-a", "pair-b", "pair-c"]) on(id, pairChanged);
  on("third", pairView);
  on("with-mains", () => { mainsChosen = true; pairView(); });
  on("start-row", (event) => startFrom(event.target.value));
  on("heat", (event) => { const box = $("heat").getBoundingClientRect(); read(...surface.from(event.clientX - box.left, event.clientY - box.top)); }, "pointermove");
  on("heat", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, k] = cursor || [surface.across.values.length >> 1, surface.up.values.length >> 1];
    read(i + step[0], k + step[1]);
  }, "keydown");
  let resized = 0;
  window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(pairView, 150); });
  on("theme", () => {
    themed.dataset.theme = isDark() ? "light" : "dark";
    pairView();
  }, "click");
  root.querySelectorAll("nav a, .skip").forEach((link) => link.addEventListener("click", (event) => { event.preventDefault(); $(link.getAttribute("href").slice(1)).scrollIntoView(); }));  // a shadow root has no addresses
  $("link").hidden = root !== document;
  on("link", async () => {
    location.hash = stateText();
    let copied = true;
    try { await navigator.clipboard.writeText(location.href); } catch { copied = false; }  // refused: the address bar has it
    $("linked").textContent = copied ? "copied" : "it is in the address bar";
  }, "click");
  all();
  concerns();
  fit();
  if (root === document) { restore(location.hash); window.ahofm = handle; }
  themed.dataset.ready = "yes";
  return handle;
}
