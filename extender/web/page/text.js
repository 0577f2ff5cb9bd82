// Text from the cluster, made harmless and readable. Nothing here touches the document.

// Control characters, marks that change the direction of text, characters without width, and
// halves of surrogate pairs: they would change how the rest of a line is shown.
const kHidden =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

// The same text, with "\u{202e}" for each such character.
export function harmless(text) {
  return String(text).replace(kHidden, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

const kNumber = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const kTenth = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

export const number = (value) => kNumber.format(value);
export const tenth = (value) => kTenth.format(value);

// 0 of nothing is 0 %.
export function percent(part, whole) {
  return whole > 0 ? (100 * part) / whole : 0;
}

export function percentText(part, whole) {
  return `${tenth(percent(part, whole))} %`;
}

export function plural(count, one, many = `${one}s`, write = number) {
  return `${write(count)} ${count === 1 ? one : many}`;
}

// Of MiB: "512 MiB", "31.7 GiB".
export function memory(mib) {
  if (mib < 1024) return `${number(mib)} MiB`;
  if (mib < 1024 * 1024) return `${tenth(mib / 1024)} GiB`;
  return `${tenth(mib / 1024 / 1024)} TiB`;
}

// Of milliseconds: "5 s", "3 min", "2 h 5 min", "4 d 2 h".
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}

const two = (value) => String(value).padStart(2, '0');

// In the time zone of the browser.
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function dayAndClock(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}
