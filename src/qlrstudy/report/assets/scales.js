// From numbers to pixels and back; and the marks of an axis that a reader has zoomed: of all others Python says them.

function makeScale(kind, domain, range) {
  const forward = kind === "log" ? Math.log10 : (value) => value;
  const back = kind === "log" ? (value) => 10 ** value : (value) => value;
  const [low, high] = domain.map(forward);
  const scale = (value) =>
    range[0] + ((forward(value) - low) / (high - low || 1)) * (range[1] - range[0]);
  scale.invert = (pixel) => back(low + ((pixel - range[0]) / (range[1] - range[0])) * (high - low));
  scale.domain = domain;
  scale.range = range;
  scale.kind = kind;
  return scale;
}

function ticks(kind, domain, count) {
  return kind === "log" ? logTicks(domain, count) : linearTicks(domain, count);
}

function linearTicks([low, high], count) {
  const raw = (high - low) / count;
  if (!(raw > 0)) return [[low, formatNumber(low)]];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const marks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + step * 1e-9; i++) {
    const value = Number((i * step).toPrecision(12));
    marks.push([value, formatNumber(value)]);
  }
  return marks;
}

function logTicks([low, high], count) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first < 1) {
    const factors = high / low > 4 ? [1, 2, 5] : null;
    if (!factors) return linearTicks([low, high], count).filter(([value]) => value > 0);
    const marks = [];
    for (let exponent = first - 1; exponent <= last + 1; exponent++) {
      for (const factor of factors) {
        const value = Number((factor * 10 ** exponent).toPrecision(3));
        if (value >= low && value <= high) marks.push([value, formatNumber(value)]);
      }
    }
    return marks;
  }
  const step = Math.max(1, Math.ceil((last - first + 1) / count));
  const marks = [];
  const plain = first >= -3 && last <= 4;
  for (let exponent = first; exponent <= last; exponent += step) {
    marks.push([10 ** exponent, plain ? formatNumber(10 ** exponent) : formatPower(exponent)]);
  }
  return marks;
}
