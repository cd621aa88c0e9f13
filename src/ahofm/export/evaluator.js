// The arrays of a model that come as one text: gzip in base 64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function numbers({ bits, data }) {
  const buffer = await unpacked(data);
  return bits === 64 ? new Float64Array(buffer) : Float64Array.from(new Float32Array(buffer));
}

// For every number the elementary symmetric polynomial of a degree of all others.
function withoutEach(values, degree) {
  const n = values.length, d = degree + 1, found = new Float64Array(n), before = new Float64Array(d);
  const after = Array.from({ length: n + 1 }, () => new Float64Array(d));
  after[n][0] = before[0] = 1;
  for (let j = n - 1; j >= 0; j--) for (let q = 0; q < d; q++) after[j][q] = after[j + 1][q] + (q ? values[j] * after[j + 1][q - 1] : 0);
  for (let j = 0; j < n; j++) {
    for (let q = 0; q < d; q++) found[j] += before[q] * after[j + 1][degree - q];
    for (let q = degree; q >= 1; q--) before[q] += values[j] * before[q - 1];
  }
  return found;
}

// Evaluates a model, given its description and its numbers. A row has a value per column: a number, the place of a level
// (-1: none of them), or null where it is missing. A linear predictor `p` is one of `model.linear_predictors`.
function evaluator(model, packed) {
  const { curves } = model;

  function breaksBelow(breaks, x) {
    let low = 0, high = breaks.length;
    while (low < high) { const mid = (low + high) >> 1; if (breaks[mid] <= x) low = mid + 1; else high = mid; }
    return low;
  }

  const modulo = (x, period) => { const rest = x % period; return rest < 0 ? rest + period : rest; };

  // Share of a turn that has passed at x.
  function turn(x, start, period) {
    const share = modulo((modulo(x, period) - modulo(start, period)) / period, 1);
    return share >= 1 ? 0 : share;
  }

  function copied(pack, row) {
    const width = pack.shape[pack.shape.length - 1];
    return packed.slice(pack.at + row * width, pack.at + (row + 1) * width);
  }

  // All functions of a column at a value: main effects of all linear predictors, then factors.
  function functions(j, value) {
    const curve = curves[j], absent = value === null || value === undefined || Number.isNaN(value);
    if (!curve.breaks) {  // levels, then the missing value, then what training did not have
      const last = curve.values.shape[0] - 1;
      return copied(curve.values, absent ? last - 1 : value < 0 ? last : value);
    }
    if (absent) return copied(curve.missing, 0);
    const x = curve.period === null ? value : turn(value, curve.start, curve.period);
    const piece = breaksBelow(curve.breaks, x), [, powers, width] = curve.values.shape;
    const t = x * curve.scales[piece] - curve.shifts[piece], out = new Float64Array(width);
    for (let m = powers - 1; m >= 0; m--) {
      const at = curve.values.at + (piece * powers + m) * width;
      for (let f = 0; f < width; f++) out[f] = out[f] * t + packed[at + f];
    }
    if (curve.nodes) addLines(curve.nodes, value, out);
    return out;
  }

  // Straight lines between nodes, constant outside. Halves, so that differences do not overflow.
  function addLines({ x: xs, values }, value, out) {
    const last = xs.length - 1, k = Math.max(breaksBelow(xs, value) - 1, 0), next = Math.min(k + 1, last);
    let part = 0;
    if (next > k && value > xs[k]) part = (0.5 * value - 0.5 * xs[k]) / (0.5 * xs[next] - 0.5 * xs[k]);
    const a = values.at + k * out.length, b = values.at + next * out.length;
    for (let f = 0; f < out.length; f++) out[f] += (1 - part) * packed[a + f] + part * packed[b + f];
  }

  // The same for one linear predictor, with its pure main effect in front.
  function phi(p, j, value) {
    const own = functions(j, value);
    let main = own[p.at];
    for (const { means, which, loadings } of p.groups) {
      if (means) which.forEach((at, f) => { main += (own[at] - means[j][f]) * means.reduce((w, m, k) => (k === j ? w : w * m[f]), loadings[f]); });
    }
    own[0] = main;
    return own;
  }

  // The term of some columns, given what phi says of them. Of product factors, other columns count with their constants.
  function term(p, subset, given) {
    if (given.length === 1) return given[0][0];
    let total = 0;
    for (const { order, which, loadings, means } of p.groups) {
      if (order !== given.length && !means) continue;
      which.forEach((at, f) => {
        let product = loadings[f];
        given.forEach((own, i) => { product *= means ? own[at] - means[subset[i]][f] : own[at]; });
        if (means) means.forEach((own, j) => { if (!subset.includes(j)) product *= own[f]; });
        total += product;
      });
    }
    return total;
  }

  // Elementary symmetric polynomial of some numbers, by recursion; their product for product factors.
  function symmetric(values, order, products) {
    if (products) return values.reduce((a, b) => a * b, 1);
    const e = new Float64Array(order + 1);
    e[0] = 1;
    for (const v of values) for (let d = order; d >= 1; d--) e[d] += v * e[d - 1];
    return e[order];
  }

  function linearPredictor(p, all) {
    let eta = p.intercept;
    for (const own of all) eta += own[p.at];
    for (const { order, which, loadings, means } of p.groups) {
      which.forEach((at, f) => { eta += loadings[f] * symmetric(all.map((own) => own[at]), order, means); });
    }
    return eta;
  }

  // Shapley values of a product factor: an integral over (0, 1), exact at its nodes.
  function addProduct(means, values, loading, shares) {
    const n = values.length, parts = values.map((v, j) => v - means[j]), after = new Float64Array(n + 1);
    model.quadrature[0].forEach((t, q) => {
      after[n] = 1;
      for (let j = n - 1; j >= 0; j--) after[j] = after[j + 1] * (means[j] + t * parts[j]);
      for (let j = 0, before = loading * model.quadrature[1][q]; j < n; j++) {
        shares[j] += parts[j] * before * after[j + 1];
        before *= means[j] + t * parts[j];
      }
    });
  }

  // Linear predictor and Shapley values of a row.
  function explain(p, row) {
    const all = row.map((value, j) => functions(j, value)), shares = all.map((own) => own[p.at]);
    for (const { order, which, loadings, means } of p.groups) {
      which.forEach((at, f) => {
        const values = all.map((own) => own[at]);
        if (means) addProduct(means.map((own) => own[f]), values, loadings[f], shares);
        else withoutEach(values, order - 1).forEach((others, j) => { shares[j] += loadings[f] * values[j] * others / order; });
      });
    }
    return { eta: shares.reduce((a, b) => a + b, p.base), shares };
  }

  const logistic = (e) => 1 / (1 + Math.exp(-e));
  const links = { identity: (e) => e, log: Math.exp, logit: logistic, inverse: (e) => (e > 0 ? 1 / e : NaN) };

  // The mean, or the probabilities of several classes, of linear predictors.
  function mean(etas) {
    if (model.mean === "levels") return model.thresholds.reduce((sum, t) => sum + logistic(etas[0] - t), model.levels[0]);
    if (model.mean === "zero_inflated") return Math.exp(etas[0] - Math.max(etas[1], 0) - Math.log1p(Math.exp(-Math.abs(etas[1]))));
    if (model.mean !== "softmax") return links[model.mean](etas[0] + (model.shift || 0));
    const top = Math.max(...etas), odds = etas.map((e) => Math.exp(e - top)), total = odds.reduce((a, b) => a + b, 0);
    return odds.map((o) => o / total);
  }

  // Linear predictors and the mean of a row, or the probabilities of several classes; offsets are added to linear predictors.
  function predict(row, offsets = []) {
    const all = row.map((value, j) => functions(j, value));
    const etas = model.linear_predictors.map((p, k) => linearPredictor(p, all) + (offsets[k] ?? 0));
    return { etas, mean: mean(etas) };
  }

  // Probabilities of levels in an order, of a linear predictor.
  function levelProbabilities(eta) {
    const below = [...model.thresholds.map((t) => logistic(t - eta)), 1];
    return below.map((b, k) => b - (k ? below[k - 1] : 0));
  }

  return { phi, term, explain, predict, mean, levelProbabilities };
}
