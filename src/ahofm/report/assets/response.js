// What is predicted, of linear predictors.

const chanceOf = (e) => 1 / (1 + Math.exp(-e));

// The evaluator's mean, or that of a family which exports do not have.
function meanFunction(model, link, { shift, thresholds, levels }) {
  if (link === "ordinal") return ([e]) => thresholds.reduce((total, t) => total + chanceOf(e - t), levels[0]);
  if (link === "zero_inflated") return ([e, z]) => Math.exp(e) * chanceOf(-z);
  return shift ? ([e]) => Math.exp(e + shift) : model.mean;
}

// Probabilities of ordered levels; none where there are no levels.
function levelProbabilities({ thresholds, levels }, e) {
  const below = [0, ...thresholds.map((t) => chanceOf(t - e)), 1];
  return levels.map((_, k) => below[k + 1] - below[k]);
}
