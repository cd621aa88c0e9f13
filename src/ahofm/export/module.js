export const { names, classes, levels } = model;
const places = {};

// A row is an object with a property for each column, or an array in the order of `names`: numbers, levels as they were in
// training, null where missing.
function placesOf(row) {
  return names.map((name, j) => {
    const cell = Array.isArray(row) ? row[j] : row[name], { levels } = model.curves[j];
    if (cell === null || cell === undefined || Number.isNaN(cell)) return null;
    if (!levels) return Number(cell);
    places[j] ??= new Map(levels.map((level, k) => [level, k]));
    return places[j].get(cell) ?? -1;
  });
}

// Linear predictors `etas` and the `mean` of a row, or the probabilities of several classes; with the most likely `label` of
// a classifier, or `probabilities` of the `levels` of an ordinal model. Offsets, one for each linear predictor, are added to these.
export function predict(row, offsets = []) {
  const found = own.predict(placesOf(row), offsets);
  if (levels.length) return { ...found, probabilities: own.levelProbabilities(found.etas[0]) };
  if (!classes) return found;
  const likely = Array.isArray(found.mean) ? found.mean.indexOf(Math.max(...found.mean)) : Number(found.mean > 0.5);
  return { ...found, label: classes[likely] };
}

// The `base` of a linear predictor and Shapley values by column: they add up to `eta`.
export function explain(row, k = 0) {
  const p = model.linear_predictors[k], { eta, shares } = own.explain(p, placesOf(row));
  return { eta, base: p.base, contributions: Object.fromEntries(names.map((name, j) => [name, shares[j]])) };
}
