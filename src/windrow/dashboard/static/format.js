// Figures as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => whole.format(value ?? 0);
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const short = (value) => (value < 10 ? fine : value < 10000 ? whole : compact).format(value);

export function span(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.9995) return `${(seconds * 1000).toPrecision(seconds < 0.01 ? 2 : 3).replace(/\.0+$/, "")} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1e3).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

const two = (value) => String(value).padStart(2, "0");

export function clock(seconds) {
  const at = new Date(seconds * 1000);
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return new Date().toDateString() === at.toDateString() ? time : `${day} ${time}`;
}
