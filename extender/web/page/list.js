// A list of any length: only the rows that can be seen are in the document. The window scrolls.
// To screen readers it is a listbox whose options know their place in the whole list.
import { element } from './dom.js';

const kMargin = 6; // rows above and below the window, and of a list that is outside of it

export class VirtualList {
  constructor(box, { onOpen }) {
    this.box = box;
    this.onOpen = onOpen;
    this.kind = null;
    this.items = [];
    this.rows = new Map(); // index -> row
    this.spare = [];
    this.active = 0;
    this.scheduled = false;
    addEventListener('scroll', () => this.schedule(), { passive: true });
    addEventListener('resize', () => this.schedule());
    box.addEventListener('keydown', (event) => this.onKey(event));
    box.addEventListener('focus', () => this.draw());
    box.addEventListener('click', (event) => this.onClick(event));
  }

  // `kind` has rowHeight, key(item), label(item) and draw(row, item, before).
  show(kind, items) {
    if (kind !== this.kind) {
      for (const row of this.rows.values()) row.remove();
      this.rows.clear();
      this.spare = [];
      this.active = 0;
    }
    const active = this.items[this.active];
    const key = active && this.kind === kind ? kind.key(active) : null;
    this.kind = kind;
    this.items = items;
    // The active row follows its item when others come and go before it.
    if (key !== null && !(items[this.active] && kind.key(items[this.active]) === key)) {
      const at = items.findIndex((item) => kind.key(item) === key);
      if (at >= 0) this.active = at;
    }
    this.active = Math.max(0, Math.min(this.active, items.length - 1));
    this.draw();
  }

  // What rows show has changed, and not their items.
  refresh() {
    for (const row of this.rows.values()) row.drawn = null;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  rowHeight() {
    const { rowHeight, rowHeightNarrow } = this.kind;
    return innerWidth < 640 && rowHeightNarrow ? rowHeightNarrow : rowHeight;
  }

  draw() {
    if (!this.kind) return;
    const height = this.rowHeight();
    const total = `${this.items.length * height}px`;
    if (this.box.style.height !== total) this.box.style.height = total;
    const top = this.box.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - kMargin);
    const last = Math.min(this.items.length, Math.max(0, Math.ceil((innerHeight - top) / height)) + kMargin);
    for (const [index, row] of this.rows) {
      if (index >= first && index < last) continue;
      this.rows.delete(index);
      row.remove();
      this.spare.push(row);
    }
    for (let index = first; index < last; ++index) this.drawRow(index, height);
    this.mark();
  }

  drawRow(index, height) {
    let row = this.rows.get(index);
    if (!row) {
      row = this.spare.pop() ?? element('div', { role: 'option', class: 'row' });
      this.rows.set(index, row);
      row.id = `row-${index}`;
      row.dataset.index = String(index);
      row.setAttribute('aria-posinset', String(index + 1));
      row.style.transform = `translateY(${index * height}px)`;
      row.style.height = `${height}px`;
      row.drawn = null;
      this.place(row, index);
    } else if (row.placed !== height) {
      row.style.transform = `translateY(${index * height}px)`;
      row.style.height = `${height}px`;
    }
    row.placed = height;
    row.setAttribute('aria-setsize', String(this.items.length));
    const item = this.items[index];
    if (row.drawn === item) return;
    this.kind.draw(row, item);
    row.drawn = item;
    row.dataset.key = this.kind.key(item);
    row.setAttribute('aria-label', this.kind.label(item));
  }

  // The order in the document is that of the list, for readers that follow it.
  place(row, index) {
    const next = this.rows.get(index + 1);
    if (next) this.box.insertBefore(row, next);
    else this.box.append(row);
  }

  mark() {
    const focused = document.activeElement === this.box;
    for (const [index, row] of this.rows) {
      const active = index === this.active;
      row.classList.toggle('active', active && focused);
      row.setAttribute('aria-selected', String(active));
    }
    if (this.rows.has(this.active)) this.box.setAttribute('aria-activedescendant', `row-${this.active}`);
    else this.box.removeAttribute('aria-activedescendant');
  }

  moveTo(index) {
    this.active = Math.max(0, Math.min(index, this.items.length - 1));
    const height = this.rowHeight();
    const box = this.box.getBoundingClientRect();
    const top = box.top + this.active * height;
    if (top < 8) scrollBy(0, top - 8);
    else if (top + height > innerHeight - 8) scrollBy(0, top + height - innerHeight + 8);
    this.draw();
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(innerHeight / this.rowHeight()) - 2);
    const to = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, Home: 0, End: this.items.length - 1,
      PageDown: this.active + page, PageUp: this.active - page,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      if (this.items.length) this.moveTo(to);
    } else if ((event.key === 'Enter' || event.key === ' ') && this.items[this.active]) {
      event.preventDefault();
      this.onOpen(this.items[this.active]);
    }
  }

  onClick(event) {
    const row = event.target.closest('.row');
    if (!row || getSelection().toString()) return;
    this.active = Number(row.dataset.index);
    this.mark();
    this.onOpen(this.items[this.active]);
  }
}
