// All cards of the cluster: a group for each model, in it a tile for each node, in it a column for each card, which
// is filled from below by what is granted.
import { colorOf, kColors } from './colors.js';
import { element } from './dom.js';
import { isUnhealthy, scarcer } from './model.js';
import { harmless, number, plural } from './text.js';

// Of a column: its width and height, and the height of the line with the name of the node.
const kScales = [[22, 56, 16], [16, 52, 16], [13, 44, 15], [12, 42, 15], [11, 38, 14], [10, 36, 14], [8, 28, 13], [6, 22, 0], [4, 16, 0], [3, 11, 0], [2, 7, 0], [2, 4, 0], [1, 3, 0], [1, 2, 0]]
  .map(([column, height, label]) => ({ column, height, label, gap: column > 3 ? 1 : 0, between: column > 3 ? 8 : column > 1 ? 3 : 1 }));
const kHeading = 28;
const kBetweenGroups = 24;
const kGroupsMost = 12; // the nodes of more models are one group

export class Overview {
  constructor(box, { onPick, onPoint }) {
    this.box = box;
    this.groups = [];
    this.places = new Map(); // name of the node -> { group, index }
    this.palette = null;
    const pick = (call) => (event) => call(this.at(event));
    box.addEventListener('click', pick((cell) => { if (cell) onPick(cell); }));
    box.addEventListener('mousemove', pick(onPoint));
    box.addEventListener('mouseleave', () => onPoint(null));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.palette = null;
      this.draw();
    });
  }

  colors() {
    if (this.palette) return this.palette;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    this.palette = { empty: color('--empty'), text: color('--soft'), bad: color('--bad'), warn: color('--warn'), other: color('--space-other') };
    for (let one = 0; one < kColors; ++one) this.palette[one] = color(`--space-${one}`);
    return this.palette;
  }

  // `nodes` in the order of the list; `shown` is a set of names, or null for all.
  show(nodes, shown) {
    this.shown = shown;
    this.groups = groupsOf(nodes);
    this.short = shortNames(nodes);
    this.places.clear();
    for (const group of this.groups) group.nodes.forEach((node, index) => this.places.set(node.name, { group, index }));
    const canvases = this.box.querySelectorAll('canvas');
    this.box.replaceChildren(...this.groups.map((group, at) => {
      group.canvas = canvases[at] ?? element('canvas', { role: 'img' });
      group.heading = element('small', {});
      return element('section', {}, element('h3', {}, element('bdi', {}, group.name), ' ', group.heading), group.canvas);
    }));
    this.draw();
  }

  // Nodes have new states, and the same cards.
  update(nodes) {
    const changed = new Set();
    for (const node of nodes) {
      const place = this.places.get(node.name);
      if (!place) continue;
      place.group.nodes[place.index] = node;
      changed.add(place.group);
      this.drawNode(place.group, place.index);
    }
    for (const group of changed) label(group);
  }

  // The largest scale with which all fits into the window below what is above it.
  layout() {
    const width = this.box.clientWidth;
    const most = Math.max(innerWidth < 640 ? 0.6 * innerHeight : 320, innerHeight - scrollY - this.box.getBoundingClientRect().top - 16);
    for (const scale of kScales) {
      let [height, line, x] = [0, 0, 0];
      for (const group of this.groups) {
        const tile = group.columns * (scale.column + scale.gap) + 4 * scale.gap;
        const across = Math.max(1, Math.floor((width + scale.between) / (tile + scale.between)));
        const rows = Math.ceil(group.nodes.length / across);
        const down = scale.height + 4 * scale.gap + scale.label;
        Object.assign(group, { scale, tile, down, across: Math.min(across, group.nodes.length) });
        group.width = group.across * (tile + scale.between) - scale.between;
        group.height = rows * (down + scale.between) - scale.between;
        if (x > 0 && x + group.width > width) [height, line, x] = [height + line, 0, 0];
        x += group.width + kBetweenGroups;
        line = Math.max(line, group.height + kHeading);
      }
      if (height + line <= most) return;
    }
  }

  draw() {
    this.layout();
    const dense = Math.min(2, devicePixelRatio || 1);
    for (const group of this.groups) {
      const { canvas, width, height } = group;
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      group.pen = canvas.getContext('2d');
      group.pen.scale(dense, dense);
      group.nodes.forEach((_, index) => this.drawNode(group, index));
      label(group);
    }
  }

  drawNode(group, index) {
    const { pen, scale, tile, down, across } = group;
    const node = group.nodes[index];
    const colors = this.colors();
    const [x, y] = [(index % across) * (tile + scale.between), Math.floor(index / across) * (down + scale.between)];
    pen.clearRect(x - 1, y - 1, tile + 2, down + 2);
    pen.globalAlpha = this.shown && !this.shown.has(node.name) ? 0.2 : 1;
    node.cards.forEach((card, at) => this.drawCard(pen, card, x + 2 * scale.gap + at * (scale.column + scale.gap), y + 2 * scale.gap, scale));
    if (scale.label) {
      pen.fillStyle = colors.text;
      pen.font = '11px system-ui, sans-serif';
      pen.textAlign = 'center';
      const letters = Math.max(1, Math.floor(tile / 6.5));
      const name = harmless(this.short(node.name));
      pen.fillText(name.length > letters ? `…${name.slice(1 - letters)}` : name, x + tile / 2, y + down - 2, tile);
    }
    pen.globalAlpha = 1;
  }

  drawCard(pen, card, x, y, { column, height, gap }) {
    const colors = this.colors();
    const frame = isUnhealthy(card) ? colors.bad : card.cordoned || card.uncertain ? colors.warn : '';
    pen.fillStyle = frame && !gap ? frame : colors.empty;
    pen.fillRect(x, y, column, height);
    const what = scarcer(card);
    let bottom = y + height;
    for (const hold of frame && !gap ? [] : card.holds) {
      const high = Math.min(bottom - y, (height * hold[what]) / Math.max(1, card[what].capacity));
      pen.fillStyle = colors[colorOf(hold.pod.namespace)];
      pen.fillRect(x, bottom - high, column, high > 3 && gap ? high - gap : high);
      bottom -= high;
    }
    if (!frame || !gap) return;
    pen.strokeStyle = frame;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, column, height);
  }

  // The node and its card at the pointer, or null.
  at(event) {
    const group = this.groups.find((one) => one.canvas === event.target);
    if (!group) return null;
    const { scale, tile, down, across } = group;
    const [column, row] = [Math.floor(event.offsetX / (tile + scale.between)), Math.floor(event.offsetY / (down + scale.between))];
    const node = column < across ? group.nodes[row * across + column] : undefined;
    const card = node?.cards[Math.floor((event.offsetX - column * (tile + scale.between) - 2 * scale.gap) / (scale.column + scale.gap))];
    return node ? { node, card: card ?? node.cards.at(-1) } : null;
  }
}

function groupsOf(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    if (!node.cards.length) continue;
    const name = [...new Set(node.cards.map((card) => harmless(card.model) || 'unknown model'))].join(', ');
    if (!groups.has(name)) groups.set(name, { name, nodes: [], columns: 0 });
    const group = groups.get(name);
    group.nodes.push(node);
    group.columns = Math.max(group.columns, node.cards.length);
  }
  const all = [...groups.values()].sort((a, b) => b.nodes.length * b.columns - a.nodes.length * a.columns);
  if (all.length <= kGroupsMost) return all;
  const rest = all.splice(kGroupsMost - 1);
  all.push({ name: `${number(rest.length)} other models`, nodes: rest.flatMap((group) => group.nodes),
    columns: Math.max(...rest.map((group) => group.columns)) });
  return all;
}

function label(group) {
  const cards = group.nodes.reduce((sum, node) => sum + node.cards.length, 0);
  const free = group.nodes.reduce((sum, node) => sum + node.sums.cardsFree, 0);
  const text = `${plural(group.nodes.length, 'node')} · ${plural(cards, 'card')} · ${number(free)} free`;
  group.heading.textContent = text;
  group.canvas.setAttribute('aria-label', `${group.name}: ${text.replaceAll(' · ', ', ')}. The list below has each node.`);
}

// Without what all names begin with, up to a separator.
function shortNames(nodes) {
  let [begin] = nodes.length ? [nodes[0].name] : [''];
  for (const { name } of nodes) while (!name.startsWith(begin)) begin = begin.slice(0, -1);
  const cut = nodes.length > 1 ? Math.max(begin.lastIndexOf('-'), begin.lastIndexOf('.')) + 1 : 0;
  return (name) => name.slice(cut);
}
