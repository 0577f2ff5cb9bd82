// The history of the cluster as lines, and as a table for those who do not see them.
import { element, svg } from './dom.js';
import { clock, dayAndClock, number, tenth } from './text.js';

const kWidth = 600;
const kHeight = 140;
const kPointsDrawn = 300;
const kTableRows = 12;

// In percent; null is not known.
export const kLines = [
  { key: 'core', name: 'compute granted', of: (point) => point.core },
  { key: 'memory', name: 'memory granted', of: (point) => point.memory },
  { key: 'core-used', name: 'compute used', of: (point) => point.coreUsed },
  { key: 'memory-used', name: 'memory used', of: (point) => point.memoryUsed },
  { key: 'parts', name: 'free compute on partly used cards', of: (point) => point.coreInParts },
];

// At most `most` of them, evenly, the last one included.
function some(points, most) {
  if (points.length <= most) return points;
  const step = (points.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => points[Math.round(i * step)]);
}

// A line ends where the next point is missing.
function pathOf(points, of) {
  const [begin, end] = [points[0].at, points.at(-1).at];
  const span = Math.max(1, end - begin);
  const gap = (3 * span) / points.length;
  let last = null;
  return points.map((point) => {
    const value = of(point);
    if (value === null) return '';
    const x = (kWidth * (point.at - begin)) / span;
    const y = kHeight - (kHeight * Math.min(100, value)) / 100;
    const joined = last !== null && point.at - last <= gap;
    last = point.at;
    return `${joined ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join('');
}

const drawn = (points) => kLines.filter(({ of }) => points.some((point) => of(point) !== null));
const valueOr = (value, write, otherwise) => (value === null ? otherwise : write(value));

// `hours` before the last point, or all.
export function drawHistory(chart, table, all, hours) {
  const points = hours ? all.filter((point) => point.at >= all.at(-1).at - hours * 3_600_000) : all;
  if (!points.length) {
    chart.replaceChildren(element('p', {}, 'There are no points yet.'));
    table.replaceChildren();
    return;
  }
  const shown = some(points, kPointsDrawn);
  const picture = svg('svg', { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  for (const y of [0, 50, 100]) picture.append(svg('line', { class: 'grid', x1: 0, x2: kWidth, y1: (kHeight * y) / 100, y2: (kHeight * y) / 100 }));
  for (const { key, of } of drawn(points)) picture.append(svg('path', { class: `line-${key}`, d: pathOf(shown, of), 'vector-effect': 'non-scaling-stroke' }));
  const legend = element('ul', { class: 'legend' }, drawn(points).map(({ key, name, of }) =>
    element('li', {}, element('span', { class: `swatch line-${key}`, 'aria-hidden': 'true' }),
      `${name}: ${valueOr(of(points.at(-1)), (value) => `${tenth(value)} %`, 'not known')}`)));
  chart.replaceChildren(
    element('div', { class: 'axis', 'aria-hidden': 'true' }, ['100 %', '50 %', '0 %'].map((text) => element('span', {}, text))),
    picture,
    element('p', { class: 'times caption' }, element('span', {}, dayAndClock(points[0].at)), element('span', {}, clock(points.at(-1).at))),
    legend);
  const open = table.querySelector('details')?.open ?? false;
  table.replaceChildren(tableOf(some(points, kTableRows), open));
}

function tableOf(points, open) {
  const head = ['time', ...kLines.map((line) => `${line.name} (%)`), 'free cards', 'partly used nodes', 'pods'];
  return element('details', { open: open ? '' : null }, element('summary', {}, 'As a table'),
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'History as a table' }, element('table', {},
      element('thead', {}, element('tr', {}, head.map((text) => element('th', { scope: 'col' }, text)))),
      element('tbody', {}, points.map((point) => element('tr', {},
        element('th', { scope: 'row' }, clock(point.at)),
        kLines.map((line) => element('td', {}, valueOr(line.of(point), tenth, '–'))),
        [point.cardsFree, point.nodesPartly, point.pods].map((count) => element('td', {}, valueOr(count, number, '–')))))))));
}
