// What is wrong in the cluster, each with a way to see it; and the sums of what is granted and used.
import { colorOf } from './colors.js';
import { byId, element, setText } from './dom.js';
import { isUnhealthy } from './model.js';
import { healthText, waitedText } from './rows.js';
import { harmless, memory, number, percentText, plural, tenth } from './text.js';

// A few cards by their nodes, and how many are left out.
function placesOf(cards) {
  const named = cards.slice(0, 2).map(({ node, card }) => `${harmless(node.name)} card ${card.index}`);
  return `${named.join(', ')}${cards.length > 2 ? ` and ${number(cards.length - 2)} more` : ''}`;
}

function cardsWhere(nodes, is) {
  return nodes.flatMap((node) => node.cards.filter(is).map((card) => ({ node, card })));
}

function unhealthyChip(nodes) {
  const cards = cardsWhere(nodes.filter((node) => node.sums.cardsUnhealthy), isUnhealthy);
  const pods = new Set(cards.flatMap(({ card }) => card.holds.map((hold) => hold.pod)));
  const kinds = [...new Set(cards.map(({ card }) => healthText(card, false)).filter(Boolean))];
  const since = cards.length === 1 ? healthText(cards[0].card).slice((kinds[0] ?? '').length) : '';
  return { key: 'unhealthy', level: 'bad', list: 'nodes', show: 'unhealthy',
    title: `${plural(cards.length, 'card')} unhealthy${kinds.length ? ': ' : ''}${kinds.slice(0, 2).join(', ')}${kinds.length > 2 ? ', …' : ''}`,
    note: `${placesOf(cards)}${since}${pods.size ? ` · ${plural(pods.size, 'pod')} on ${cards.length === 1 ? 'it' : 'them'}` : ''}` };
}

function freeNote(models) {
  const free = [...models].filter(([, of]) => of.free).sort(([, a], [, b]) => b.free - a.free);
  return `${free.slice(0, 2).map(([model, of]) => `${number(of.free)} × ${harmless(model) || 'unknown model'}`).join(', ')}${free.length > 2 ? ', …' : ''}`;
}

function chipsOf(cluster, waiting, idle) {
  const nodes = cluster.all();
  const all = cluster.totals;
  const chips = [];
  const pending = waiting.pods.length + (waiting.more ?? 0);
  if (waiting.problem) {
    chips.push({ key: 'pending', level: 'bad', list: 'waiting', title: 'Pending pods are not known', note: harmless(waiting.problem) });
  } else if (pending) {
    chips.push({ key: 'pending', level: 'bad', list: 'waiting', title: `${plural(pending, 'pod')} pending`, note: `longest ${waitedText(waiting.pods[0])}` });
  }
  if (all.cardsUnhealthy) chips.push(unhealthyChip(nodes));
  const problems = all.nodesWithProblem ? nodes.filter((node) => node.problem) : [];
  if (problems.length) {
    chips.push({ key: 'problem', level: 'bad', list: 'nodes', show: 'trouble', title: `${plural(problems.length, 'node')} with a problem`,
      note: `${harmless(problems[0].name)}: ${harmless(problems[0].problem)}` });
  }
  if (all.podsDrifting) {
    chips.push({ key: 'drift', level: 'bad', list: 'pods', show: 'drift', title: `${plural(all.podsDrifting, 'pod')} with drift`, note: 'pods, cards and processes disagree' });
  }
  if (all.cardsUncertain) {
    chips.push({ key: 'blocked', level: 'warn', list: 'nodes', show: 'trouble', title: `${plural(all.cardsUncertain, 'card')} blocked`, note: 'by pods whose cards are not known' });
  }
  if (all.cardsCordoned) {
    chips.push({ key: 'cordoned', level: 'warn', list: 'nodes', show: 'cordoned', title: `${plural(all.cardsCordoned, 'card')} cordoned`,
      note: placesOf(cardsWhere(nodes.filter((node) => node.sums.cardsCordoned), (card) => card.cordoned)) });
  }
  if (idle.length) {
    const held = idle.reduce((sum, pod) => sum + pod.holds.reduce((core, hold) => core + hold.core, 0), 0);
    chips.push({ key: 'idle', level: 'warn', list: 'pods', show: 'idle', title: `${plural(idle.length, 'pod')} idle for an hour`,
      note: `hold${idle.length === 1 ? 's' : ''} ${plural(held / 100, 'card', 'cards', tenth)}` });
  }
  if (!chips.length && all.cards) chips.push({ key: 'well', level: 'good', title: 'Nothing needs attention', note: 'no pod is pending, all cards are healthy' });
  if (all.cardsFree) chips.push({ key: 'free', level: 'plain', list: 'nodes', show: 'free', title: `${plural(all.cardsFree, 'card')} free`, note: freeNote(cluster.models) });
  return chips;
}

// Elements stay, so that the focus does.
export function drawAttention(cluster, waiting, idle, onChoose) {
  const box = byId('attention');
  const before = new Map([...box.children].map((item) => [item.dataset.what, item]));
  chipsOf(cluster, waiting, idle).forEach(({ key, level, title, note, list, show }, at) => {
    const item = before.get(key) ?? element('li', { 'data-what': key }, element(list ? 'button' : 'div', { type: list ? 'button' : null, class: `chip ${level}` },
      element('strong', {}), ' ', element('small', {})));
    before.delete(key);
    item.firstChild.onclick = list ? () => onChoose(list, show ?? '') : null;
    setText(item.querySelector('strong'), title);
    setText(item.querySelector('small'), note);
    if (box.children[at] !== item) box.insertBefore(item, box.children[at] ?? null);
  });
  for (const item of before.values()) item.remove();
}

// --- granted and used ----------------------------------------------------------------------------

// The namespaces with a color, those that hold most first, and one entry for all others.
function spacesOf(namespaces) {
  const all = [...namespaces].map(([name, sums]) => ({ name, color: colorOf(name), ...sums })).sort((a, b) => b.core - a.core || (a.name < b.name ? -1 : 1));
  const others = all.filter((one) => one.color === 'other');
  const shown = all.filter((one) => one.color !== 'other');
  if (others.length) {
    const sum = (what) => others.reduce((total, one) => total + one[what], 0);
    shown.push({ name: '', text: `${number(others.length)} others`, color: 'other', core: sum('core'), memory: sum('memory'), pods: sum('pods') });
  }
  return shown;
}

function meter(key, name, spaces, { used, capacity, written, note, measured }) {
  const bar = element('span', { class: 'stack', 'aria-hidden': 'true' }, spaces.map((space) => {
    const part = element('span', { class: `space-${space.color}` });
    part.style.width = `${(100 * space[key]) / Math.max(1, capacity)}%`;
    return part;
  }));
  const line = element('span', { class: 'used-line', 'aria-hidden': 'true' }, element('span', {}));
  line.firstChild.style.width = `${Math.min(100, measured ?? 0)}%`;
  return element('div', { 'data-total': key }, element('p', {}, `${name} granted`),
    element('p', {}, element('strong', {}, percentText(used, capacity)), ' ', element('small', {}, written),
      measured === null ? null : element('small', { class: 'used' }, ` · used ${tenth(measured)} %`)),
    bar, measured === null ? null : line, element('p', { class: 'caption' }, note));
}

export function drawGranted(cluster, point, query, onSpace) {
  const all = cluster.totals;
  const spaces = spacesOf(cluster.namespaces);
  byId('granted').replaceChildren(
    meter('core', 'Compute', spaces, { used: all.coreUsed, capacity: all.core, measured: point?.coreUsed ?? null,
      written: `${tenth(all.coreUsed / 100)} of ${plural(all.core / 100, 'card', 'cards', tenth)}`,
      note: `${plural(all.cardsFree, 'whole card')} free, and ${tenth(all.coreFreeInParts / 100)} in parts of others` }),
    meter('memory', 'Memory', spaces, { used: all.memoryUsed, capacity: all.memory, measured: point?.memoryUsed ?? null,
      written: `${memory(all.memoryUsed)} of ${memory(all.memory)}`, note: `${memory(all.memoryFree)} free` }));
  const legend = byId('legend');
  const held = legend.contains(document.activeElement) ? document.activeElement.dataset.space : null;
  legend.replaceChildren(...spaces.map((space) => {
    const text = [element('span', { class: `dot space-${space.color}` }), element('bdi', {}, space.text ?? harmless(space.name)),
      element('small', {}, ` ${plural(space.core / 100, 'card', 'cards', tenth)} · ${memory(space.memory)} · ${plural(space.pods, 'pod')}`)];
    if (!space.name) return element('li', {}, text);
    const chosen = query === `${space.name}/`;
    return element('li', {}, element('button', { type: 'button', 'data-space': space.name, 'aria-pressed': String(chosen),
      click: () => onSpace(chosen ? '' : `${space.name}/`) }, text));
  }));
  if (held) legend.querySelector(`[data-space="${CSS.escape(held)}"]`)?.focus();
}
