// Writes spans of time as text in the same way as `gateway/duration.py`; the tests compare the two.
// The gateway's page and the bench's report both use it.

const LONG = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
const SHORT = [[1, "s"], [1e3, "ms"], [1e6, "µs"]];

export function duration(seconds) {
  if (seconds < 59.95) return short(seconds);
  const whole = Math.floor(seconds + 0.5);
  const at = LONG.findIndex(([size]) => whole >= size);
  const [[size, unit], [smaller, smallerUnit]] = LONG.slice(at, at + 2);
  const rest = Math.floor((whole % size) / smaller);
  return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${smallerUnit}` : "");
}

function short(seconds) {
  const suits = ([times]) => seconds * times >= 0.9995 || seconds === 0;
  const [times, unit] = SHORT.find(suits) ?? SHORT.at(-1);
  const number = seconds * times;
  const scale = number < 9.995 ? 100 : number < 99.95 ? 10 : 1;
  return `${Math.floor(number * scale + 0.5) / scale} ${unit}`;
}
