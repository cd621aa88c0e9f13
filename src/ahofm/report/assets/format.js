// Numbers, names and axes as people read them.

// At most four digits: 1,234 and 0.0123; 200k and 1.2M where they are ticks.
function show(v, tick = false) {
  if (v === null || Number.isNaN(v)) return "–";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "-∞";
  if (size >= 1e15 || size < 1e-4) return v.toExponential(tick ? 0 : 2).replace("e+", "e");
  if (tick && size >= 1e4) {
    const [unit, name] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : [1e3, "k"];
    return `${+(v / unit).toPrecision(4)}${name}`;
  }
  const rounded = +v.toPrecision(size >= 1e4 ? 6 : 4);
  return size >= 1e4 ? rounded.toLocaleString("en") : String(rounded);
}

const percent = (v) => (v >= 0.0995 ? Math.round(100 * v) + " %" : v >= 0.0005 ? (100 * v).toFixed(1) + " %" : "< 0.1 %");

// To the same place as the largest of its list, which has four digits: what is small beside it is 0.000.
function alike(v, most) {
  const size = Math.abs(most);
  if (Math.abs(v) < 1e-12 * size) return size >= 1e-4 ? (0).toFixed(Math.max(0, 3 - Math.floor(Math.log10(size)))) : "0";
  if (!(size >= 1e-4 && size < 1e15)) return show(v);
  const digits = Math.max(0, 3 - Math.floor(Math.log10(size))), text = v.toFixed(digits);
  return size >= 1e4 ? (+text).toLocaleString("en") : text;
}

const signed = (v, most) => { const text = alike(v, most); return (v > 0 && Number(text) !== 0 ? "+" : "") + (Number(text) === 0 ? text.replace("-", "") : text); };

// Letters that take the room of two: emoji, Chinese, Japanese, Korean.
const isWide = (sign) => /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f000}-\u{1faff}\u{20000}-\u{3fffd}]/u.test(sign);
const widthOf = (name) => Array.from(name).reduce((total, sign) => total + (isWide(sign) ? 2 : 1), 0);

function shortened(name, most) {
  const signs = Array.from(name);  // not code units: half an emoji is none
  if (widthOf(name) <= most) return name;
  let kept = 0, taken = 1;
  while (kept < signs.length && taken + widthOf(signs[kept]) <= most) taken += widthOf(signs[kept++]);
  return signs.slice(0, kept).join("") + "…";
}

// Signs that turn the direction of what follows would turn the words around a name.
const undirected = (name) => name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

// Round numbers between two ends; whole ones where a column has no others.
function ticks(low, high, count = 5, whole = false) {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
  let step = unit * ([1, 2, 2.5, 5, 10].find((m) => m * unit >= raw) || 10);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(+(k * step).toPrecision(12));
  return found;
}

// Powers of ten, and 2 and 5 between them where these are few.
function logTicks(low, high) {
  const found = [], wide = Math.log10(high / low), steps = wide < 1.6 ? [1, 2, 5] : wide < 3.2 ? [1, 3] : [1];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) for (const m of steps) {
    const v = +(m * 10 ** e).toPrecision(12);
    if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
  }
  return found;
}

// Turns of a clock, a week, a year have ticks of their own.
const TURNS = { 24: 6, 7: 1, 12: 1, 365: 73, 366: 61, 360: 90, 60: 15, 1440: 360 };

// The axis of a column of numbers: where a number stands, its ticks, evenly spaced numbers.
function axisOf(column, full = false) {
  const { scale } = column.axis, log = scale === "log", place = log ? Math.log : (v) => v, back = log ? Math.exp : (v) => v;
  const low = full ? Math.min(column.low, column.axis.low) : column.axis.low, high = full ? Math.max(column.high, column.axis.high) : column.axis.high;
  const few = column.points.length > 0, pad = few ? 0.06 * (high - low || 1) : 0, turn = column.period ? TURNS[column.period] : null;
  let marks = few ? column.points : log ? logTicks(low, high) : ticks(low, high, 5, column.whole);
  if (!few && turn) marks = Array.from({ length: Math.round(column.period / turn) + 1 }, (_, k) => low + k * turn);
  return {
    low: place(low) - pad, high: place(high) + pad, place, marks, whole: column.whole,
    // whole numbers one by one where they are not many more than asked for: a curve is read at hours, not between them
    spread: (count) => (few ? column.points : column.whole && !log && high - low < 2 * count ? Array.from({ length: Math.round(high - low) + 1 }, (_, k) => low + k) : Array.from({ length: count }, (_, k) => back(place(low) + (place(high) - place(low)) * k / (count - 1)))),
  };
}
