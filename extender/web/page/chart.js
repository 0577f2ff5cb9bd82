// The history of the cluster as lines, and as a table for those who do not see them.
import { element, svg } from './dom.js';
import { clock, dayAndClock, number, percent, tenth } from './text.js';

const kWidth = 600;
const kHeight = 140;
const kTableRows = 12;

export const kLines = [
  { key: 'core', name: 'compute granted', of: (sample) => percent(sample.coreUsed, sample.core) },
  { key: 'memory', name: 'memory granted', of: (sample) => percent(sample.memoryUsed, sample.memory) },
  { key: 'parts', name: 'free compute on partly used cards', of: (sample) => percent(sample.coreFreeInParts, sample.coreFree) },
];

// At most `most` of them, evenly, the last one included.
function some(samples, most) {
  if (samples.length <= most) return samples;
  const step = (samples.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => samples[Math.round(i * step)]);
}

function pathOf(samples, of) {
  const [begin, end] = [samples[0].at, samples.at(-1).at];
  const span = Math.max(1, end - begin);
  return samples.map((sample, i) => {
    const x = (kWidth * (sample.at - begin)) / span;
    const y = kHeight - (kHeight * Math.min(100, of(sample))) / 100;
    return `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join('');
}

export function drawHistory(chart, table, samples) {
  if (!samples.length) {
    chart.replaceChildren(element('p', {}, 'There are no samples yet.'));
    table.replaceChildren();
    return;
  }
  const shown = some(samples, 300);
  const picture = svg('svg', { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  for (const y of [0, 50, 100]) picture.append(svg('line', { class: 'grid', x1: 0, x2: kWidth, y1: (kHeight * y) / 100, y2: (kHeight * y) / 100 }));
  for (const { key, of } of kLines) picture.append(svg('path', { class: `line-${key}`, d: pathOf(shown, of), 'vector-effect': 'non-scaling-stroke' }));
  const legend = element('ul', { class: 'legend' }, kLines.map(({ key, name, of }) =>
    element('li', {}, element('span', { class: `swatch line-${key}`, 'aria-hidden': 'true' }), `${name}: ${tenth(of(samples.at(-1)))} %`)));
  chart.replaceChildren(
    element('div', { class: 'axis', 'aria-hidden': 'true' }, element('span', {}, '100 %'), element('span', {}, '0 %')),
    picture,
    element('p', { class: 'times caption' }, element('span', {}, dayAndClock(samples[0].at)), element('span', {}, clock(samples.at(-1).at))),
    legend);
  table.replaceChildren(tableOf(some(samples, kTableRows)));
}

function tableOf(samples) {
  const head = ['time', ...kLines.map((line) => `${line.name} (%)`), 'free cards', 'partly used nodes', 'pods'];
  return element('details', {}, element('summary', {}, 'As a table'),
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'History as a table' }, element('table', {},
      element('thead', {}, element('tr', {}, head.map((text) => element('th', { scope: 'col' }, text)))),
      element('tbody', {}, samples.map((sample) => element('tr', {},
        element('th', { scope: 'row' }, clock(sample.at)), kLines.map((line) => element('td', {}, tenth(line.of(sample)))),
        element('td', {}, number(sample.cardsFree)), element('td', {}, number(sample.nodesPartly)),
        element('td', {}, number(sample.pods))))))));
}
