// The arrays of a model, which come as one text: gzip in base 64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function numbers({ bits, data }) {
  const buffer = await unpacked(data);
  return bits === 64 ? new Float64Array(buffer) : Float64Array.from(new Float32Array(buffer));
}

function breaksBelow(breaks, x) {
  let low = 0, high = breaks.length;
  while (low < high) { const mid = (low + high) >> 1; if (breaks[mid] <= x) low = mid + 1; else high = mid; }
  return low;
}

// Evaluates a model, given its description and its numbers. A row has a value per column: a number, the place of a level
// (-1: none of them), or null where it is missing. A linear predictor `p` is one of `model.linear_predictors`.
function evaluator(model, packed) {
  // Functions of one column of a linear predictor: its main effect, then its factors.
  function phi(p, j, value) {
    const curve = p.columns[j], pack = curve.levels || curve.values, width = pack.shape[pack.shape.length - 1], out = new Float64Array(width);
    if (curve.levels) {
      const count = curve.levels.shape[0], missing = curve.learns_missing ? count - 2 : count - 1;
      const code = value === null ? missing : value < 0 ? count - 1 : value;
      for (let f = 0; f < width; f++) out[f] = packed[curve.levels.at + code * width + f];
      return out;
    }
    if (value === null || Number.isNaN(value)) {
      for (let f = 0; f < width; f++) out[f] = packed[curve.missing.at + f];
      return out;
    }
    let x = value;
    if (curve.period !== null) {
      const share = (x - curve.start) / curve.period;
      x = share - Math.floor(share);
      if (x >= 1) x = 0;
    }
    const piece = breaksBelow(curve.breaks, x), powers = curve.values.shape[1];
    const t = x * curve.scales[piece] - curve.shifts[piece];
    for (let m = powers - 1; m >= 0; m--) {
      const at = curve.values.at + (piece * powers + m) * width;
      for (let f = 0; f < width; f++) out[f] = out[f] * t + packed[at + f];
    }
    if (curve.nodes) {
      const xs = curve.nodes.x, last = xs.length - 1;
      let k = breaksBelow(xs, value) - 1, part = 0;
      if (k < 0) k = 0; else if (k >= last) { k = Math.max(last - 1, 0); part = last > 0 ? 1 : 0; } else part = (value - xs[k]) / (xs[k + 1] - xs[k]);
      const a = curve.nodes.values.at + k * width, b = last > 0 ? a + width : a;
      for (let f = 0; f < width; f++) out[f] += (1 - part) * packed[a + f] + part * packed[b + f];
    }
    return out;
  }

  // The term of some columns, given their functions. Of product factors, other columns count with their constants.
  function term(p, subset, functions) {
    if (functions.length === 1) return functions[0][0];
    let total = 0;
    for (const group of p.orders) {
      if (group.order !== functions.length && !group.means) continue;
      group.loadings.forEach((w, f) => {
        let product = w;
        for (const own of functions) product *= own[group.first + f];
        if (group.means) group.means.forEach((own, j) => { if (!subset.includes(j)) product *= own[f]; });
        total += product;
      });
    }
    return total;
  }

  // Shapley values of a product factor's terms of two and more columns: an integral over (0, 1), exact at its nodes.
  function addProduct(group, f, w, values, shares) {
    const n = values.length, means = group.means.map((own) => own[f]), after = new Float64Array(n + 1);
    const add = (t, weight) => {
      after[n] = 1;
      for (let j = n - 1; j >= 0; j--) after[j] = after[j + 1] * (means[j] + t * values[j]);
      for (let j = 0, before = w * weight; j < n; j++) {
        shares[j] += values[j] * before * after[j + 1];
        before *= means[j] + t * values[j];
      }
    };
    group.nodes.forEach((t, q) => add(t, group.weights[q]));
    add(0, -1);
  }

  // Linear predictor and Shapley values of a row.
  function explain(p, row) {
    const functions = row.map((value, j) => phi(p, j, value)), shares = functions.map((own) => own[0]);
    for (const group of p.orders) {
      const d = group.order;
      group.loadings.forEach((w, f) => {
        const values = functions.map((own) => own[group.first + f]);
        if (group.means) addProduct(group, f, w, values, shares);
        else withoutEach(values, d - 1).forEach((others, j) => { shares[j] += w * values[j] * others / d; });
      });
    }
    return { eta: shares.reduce((a, b) => a + b, p.intercept), shares };
  }

  const means = { identity: (e) => e, log: Math.exp, logit: (e) => 1 / (1 + Math.exp(-e)), inverse: (e) => 1 / e };

  // The mean, or the probabilities of several classes, of linear predictors.
  function mean(etas) {
    if (model.mean !== "softmax") return (means[model.mean] || means.identity)(etas[0]);
    const top = Math.max(...etas), odds = etas.map((e) => Math.exp(e - top)), total = odds.reduce((a, b) => a + b, 0);
    return odds.map((o) => o / total);
  }

  function predict(row, offsets = []) {
    const etas = model.linear_predictors.map((p, k) => explain(p, row).eta + (offsets[k] || 0));
    return { etas, mean: mean(etas) };
  }

  return { phi, term, explain, predict, mean };
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
