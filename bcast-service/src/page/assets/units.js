// Numbers with their units, worded as `arborcast` words them.

const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

function scaled(value, prefixes) {
  const [size, prefix] = prefixes.find(([size]) => Math.abs(value) >= size) ?? prefixes.at(-1);
  const number = value / size;
  const digits = Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2;
  return [number.toFixed(digits), prefix];
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const [number, prefix] = value === 0 ? ["0", ""] : scaled(value, PREFIXES.slice(3));
  return `${number} ${prefix}s`;
}

// Of bytes per second; null is a rate that nothing limits.
export function rate(value) {
  if (value === null || value === undefined) return "unlimited";
  const [number, prefix] = scaled(8 * value, PREFIXES.slice(0, 4));
  return `${number} ${prefix}bit/s`;
}

export function bytes(count) {
  for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (count >= size && count % size === 0) return `${count / size} ${name}`;
  }
  return `${count} B`;
}

// A sum of bytes, in powers of ten.
export function amount(count) {
  const [number, prefix] = scaled(count, PREFIXES.slice(0, 4));
  return prefix === "" ? `${count} B` : `${number} ${prefix}B`;
}

export const count = (number, one, many) => (number === 1 ? `1 ${one}` : `${number} ${many}`);
export const percent = (part) => `${Math.round(100 * part)} %`;
export const times = (factor) =>
  factor === null || factor === undefined ? "–" : `${factor.toFixed(2)} ×`;

const pad = (number) => String(number).padStart(2, "0");

// In the browser's time zone.
export function clock(unix_s) {
  const date = new Date(1000 * unix_s);
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(pad).join(":");
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${time}`;
}

export function ago(unix_s) {
  if (unix_s === null || unix_s === undefined) return "–";
  const age = Math.max(0, Date.now() / 1000 - unix_s);
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (age >= size) return `${Math.floor(age / size)} ${name} ago`;
  }
  return age < 5 ? "now" : `${Math.floor(age)} s ago`;
}
