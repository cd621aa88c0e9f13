// Standard errors of the linear predictors of a row, from the band of the model; see interval.py.
async function intervals(band, packed) {
  if (!band) return null;
  const short = new Int16Array(await unpacked(band.numbers));

  // One code's entry of every row of a table (coordinates, codes).
  const entries = (pack, codes, code) => pack.scales.map((scale, i) => scale * short[pack.at + i * codes + code]);

  function codeOf(column, learnsMissing, value) {
    if (value === null || Number.isNaN(value)) return column.codes - (learnsMissing ? 2 : 1);
    if (!column.edges) return value < 0 ? column.codes - 1 : value;
    let low = 0, high = column.edges.shape[0];  // edges strictly below the value
    while (low < high) { const mid = (low + high) >> 1; if (packed[column.edges.at + mid] < value) low = mid + 1; else high = mid; }
    return low;
  }

  // How far a number lies beyond the range of a main effect that goes on as a line.
  function beyond(line, value) {
    const within = (ends) => Math.min(Math.max(value, ends[0]), ends[1]);
    return value === null || Number.isNaN(value) ? 0 : within(line.ends) - within(line.range);
  }

  // Slopes of the linear predictor by the value of every factor of every column: (columns, factors).
  function slopes(predictor, values) {
    const found = values.map((own) => new Float64Array(own.length));
    for (const { order, first, loadings, means } of predictor.groups) {
      loadings.forEach((w, f) => {
        const own = values.map((v, j) => v[first + f] + (means ? means[j][f] : 0));
        const others = withoutEach(own, means ? own.length - 1 : order - 1);
        const alone = means ? withoutEach(means.map((m) => m[f]), own.length - 1) : null;
        others.forEach((v, j) => { found[j][first + f] = w * (v - (alone ? alone[j] : 0)); });
      });
    }
    return found;
  }

  // `row` as for the evaluator; `columns` tell which have an effect of missing values.
  return function standardError(k, row, columns) {
    const own = band.predictors[k], rank = own.groups.reduce((n, g) => n + g.loadings.length, 0), derivative = [1], starts = [];
    const theta = (at) => packed[own.theta.at + at];
    let at = 1;
    const parts = row.map((value, j) => {
      const column = band.columns[j], code = codeOf(column, columns[j].missing, value);
      const main = entries(column.mains, column.codes, code).map((v, i) =>
        v + (own.lines.includes(j) ? beyond(column.line, value) * column.line.slopes[i] : 0));
      const factors = entries(column.factors, column.codes, code);
      starts.push(at);
      const values = new Float64Array(rank);
      factors.forEach((v, c) => { for (let f = 0; f < rank; f++) values[f] += v * theta(at + main.length + c * rank + f); });
      at += main.length + factors.length * rank;
      return { code, main, factors, values };
    });
    const by = slopes(own, parts.map((part) => part.values));
    parts.forEach(({ main, factors }, j) => {
      derivative.push(...main);
      factors.forEach((v) => { for (let f = 0; f < rank; f++) derivative.push(v * by[j][f]); });
    });
    const kept = own.correlated ? own.correlated.map((p) => derivative[p]) : derivative;
    let variance = 0, bias = 0, place = own.inverse.at;
    kept.forEach((v, i) => {
      let total = 0;
      for (let q = 0; q <= i; q++) total += short[place + q] * kept[q];
      variance += (own.inverse.scales[i] * total) ** 2;
      place += i + 1;
      bias += v * packed[own.shift.at + i];
    });
    if (own.uncorrelated) derivative.forEach((v, p) => { variance += packed[own.uncorrelated.at + p] * v * v; });
    parts.forEach(({ code }, j) => { if (own.random_effects[j]) variance += packed[own.random_effects[j].at + code]; });
    return own.width * Math.sqrt(variance + bias * bias);
  };
}
