// The colors of namespaces. A namespace keeps its color while the page is open, and those of a reload are the same
// unless others hold more.

export const kColors = 8; // .space-0 to .space-7; .space-other has the rest

let colors = new Map(); // namespace -> its number

function hashOf(text) {
  let hash = 0;
  for (const character of text) hash = (31 * hash + character.codePointAt(0)) | 0;
  return Math.abs(hash) % kColors;
}

// The namespaces that hold most take the free colors. Returns whether a color has changed.
export function giveColors(namespaces) {
  const before = colors.size;
  colors = new Map([...colors].filter(([name]) => namespaces.has(name)));
  let changed = colors.size !== before;
  const taken = new Set(colors.values());
  const wanting = [...namespaces].filter(([name]) => !colors.has(name)).sort(([a, x], [b, y]) => y.core - x.core || (a < b ? -1 : 1));
  for (const [name] of wanting.slice(0, kColors - colors.size)) {
    let color = hashOf(name);
    while (taken.has(color)) color = (color + 1) % kColors;
    taken.add(color);
    colors.set(name, color);
    changed = true;
  }
  return changed;
}

export const colorOf = (namespace) => colors.get(namespace) ?? 'other';
