// Numbers and words as people read them.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function formatNumber(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4)
    return value
      .toExponential(digits - 1)
      .replace(/\.?0+e/, "e")
      .replace("e+", "e");
  if (Number.isInteger(value)) return value.toLocaleString("en-GB");
  return String(Number(value.toPrecision(digits)));
}

function formatEstimate(value, error) {
  return error ? `${formatNumber(value)} ± ${formatNumber(error, 2)}` : formatNumber(value);
}

function formatPower(exponent) {
  const digits = [...String(Math.abs(exponent))]
    .map((digit) => SUPERSCRIPTS[Number(digit)])
    .join("");
  return `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

function counted(count, noun) {
  return `${count.toLocaleString("en-GB")} ${noun}${count === 1 ? "" : "s"}`;
}

function words(name) {
  return name.replaceAll("_", " ");
}

function commaSeparated(rows) {
  // A spreadsheet would take text that begins like this for a formula.
  const safe = (cell) =>
    typeof cell === "string" && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell ?? "");
  const quoted = (cell) =>
    /[",\n\r]/.test(safe(cell)) ? `"${safe(cell).replaceAll('"', '""')}"` : safe(cell);
  return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}
