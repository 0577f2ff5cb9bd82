// All cards of the cluster as small squares, node after node.
import { fullness, isUsable } from './model.js';

const kSizes = [16, 12, 10, 8, 7, 6, 5, 4, 3, 2];
const kHeightMost = 240;
const kSteps = 10; // of fullness

export class Overview {
  constructor(canvas, { onPick, onPoint }) {
    this.canvas = canvas;
    this.onPick = onPick;
    this.onPoint = onPoint;
    this.cells = []; // { node, card }
    this.first = new Map(); // node name -> index of its first cell
    this.palette = null;
    this.drawn = '';
    canvas.addEventListener('click', (event) => { const cell = this.at(event); if (cell) onPick(cell); });
    canvas.addEventListener('mousemove', (event) => onPoint(this.at(event)));
    canvas.addEventListener('mouseleave', () => onPoint(null));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.palette = null;
      this.draw();
    });
  }

  colors() {
    if (this.palette) return this.palette;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const mixed = [];
    for (let step = 0; step <= kSteps; ++step) mixed.push(mix(color('--empty'), color('--filled'), step / kSteps));
    this.palette = { mixed, unhealthy: color('--bad'), uncertain: color('--warn') };
    return this.palette;
  }

  // `nodes` in the order of the list; `shown` is a set of names, or null for all.
  show(nodes, shown) {
    this.shown = shown;
    this.cells = [];
    this.first.clear();
    for (const node of nodes) {
      this.first.set(node.name, this.cells.length);
      for (const card of node.cards) this.cells.push({ node, card });
    }
    this.draw();
  }

  // Nodes have new states, and the same numbers of cards.
  update(nodes) {
    const pen = this.canvas.getContext('2d');
    for (const node of nodes) {
      const first = this.first.get(node.name);
      if (first === undefined) continue;
      node.cards.forEach((card, offset) => {
        this.cells[first + offset] = { node, card };
        this.drawCell(pen, first + offset);
      });
    }
  }

  layout() {
    const width = this.canvas.parentElement.clientWidth;
    const size = kSizes.find((one) => Math.ceil(this.cells.length / Math.floor(width / one)) * one <= kHeightMost) ?? 2;
    const columns = Math.max(1, Math.floor(width / size));
    const rows = Math.max(1, Math.ceil(this.cells.length / columns));
    return { size, columns, width: columns * size, height: rows * size };
  }

  draw() {
    const scale = Math.min(2, devicePixelRatio || 1);
    this.place = this.layout();
    const { width, height } = this.place;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext('2d');
    pen.scale(scale, scale);
    for (let index = 0; index < this.cells.length; ++index) this.drawCell(pen, index);
  }

  drawCell(pen, index) {
    const { node, card } = this.cells[index];
    const { size, columns } = this.place;
    const { mixed, unhealthy, uncertain } = this.colors();
    const gap = size >= 5 ? 1 : 0;
    const [x, y] = [(index % columns) * size, Math.floor(index / columns) * size];
    pen.clearRect(x, y, size, size);
    pen.globalAlpha = this.shown && !this.shown.has(node.name) ? 0.15 : 1;
    pen.fillStyle = isUsable(card) ? mixed[Math.round(kSteps * fullness(card))] : card.healthy ? uncertain : unhealthy;
    pen.fillRect(x, y, size - gap, size - gap);
    pen.globalAlpha = 1;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const { size, columns } = this.place;
    const column = Math.floor((event.clientX - box.left) / size);
    const row = Math.floor((event.clientY - box.top) / size);
    return column >= 0 && column < columns && row >= 0 ? this.cells[row * columns + column] ?? null : null;
  }
}

// Of two colors "#rrggbb".
function mix(from, to, part) {
  const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  const [a, b] = [channels(from), channels(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * part)).join(' ')})`;
}
