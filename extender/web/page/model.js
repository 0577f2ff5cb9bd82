// The cluster as the extender has sent it. Nothing here touches the document.

// The arrays of node_text.h.
function readCard(from) {
  const [index, uuid, model, flags, ...amounts] = from;
  const [core, memory] = [amounts.slice(0, 4), amounts.slice(4, 8)].map(
    ([capacity, used, free, expected]) => ({ capacity, used, free, expected }));
  return { index, uuid, model, healthy: (flags & 1) !== 0, uncertain: (flags & 2) !== 0,
    cordoned: (flags & 4) !== 0, core, memory, holds: [] };
}

function readPod(from, node) {
  const [namespace, name, phase, priority, drift, holds] = from;
  return {
    namespace, name, node, priority, drift, bound: phase === 1,
    holds: holds.map(([card, core, memory]) => ({ card, core, memory })),
  };
}

export function readNode(from) {
  const [name, problem, cards, pods] = from;
  const node = { name, problem, cards: cards.map(readCard), pods: pods.map((pod) => readPod(pod, name)) };
  const byIndex = new Map(node.cards.map((card) => [card.index, card]));
  for (const pod of node.pods) {
    for (const hold of pod.holds) byIndex.get(hold.card)?.holds.push({ pod, core: hold.core, memory: hold.memory });
  }
  return { ...node, sums: sumsOf(node), searched: null };
}

export const isUsed = (card) => card.core.used > 0 || card.memory.used > 0;
export const isUsable = (card) => card.healthy && !card.uncertain && !card.cordoned;
export const isFree = (card) => isUsable(card) && !isUsed(card);
// How full a card is: of compute and memory the greater part.
export const fullness = (card) =>
  Math.min(1, Math.max(card.core.used / Math.max(1, card.core.capacity), card.memory.used / Math.max(1, card.memory.capacity)));

const kNoSums = {
  nodes: 0, cards: 0, cardsUsed: 0, cardsFree: 0, cardsUnhealthy: 0, cardsUncertain: 0, core: 0, coreUsed: 0,
  coreFree: 0, coreFreeInParts: 0, memory: 0, memoryUsed: 0, memoryFree: 0, podsBound: 0, podsAssumed: 0,
  podsDrifting: 0, nodesPartly: 0, nodesWithProblem: 0,
};

function sumsOf(node) {
  const sums = { ...kNoSums, nodes: 1 };
  for (const card of node.cards) {
    sums.cards += 1;
    sums.core += card.core.capacity;
    sums.coreUsed += card.core.used;
    sums.coreFree += card.core.free;
    sums.memory += card.memory.capacity;
    sums.memoryUsed += card.memory.used;
    sums.memoryFree += card.memory.free;
    if (isUsed(card)) sums.cardsUsed += 1;
    if (isUsed(card)) sums.coreFreeInParts += card.core.free;
    if (isFree(card)) sums.cardsFree += 1;
    if (!card.healthy) sums.cardsUnhealthy += 1;
    if (card.uncertain) sums.cardsUncertain += 1;
  }
  for (const pod of node.pods) {
    sums[pod.bound ? 'podsBound' : 'podsAssumed'] += 1;
    if (pod.drift) sums.podsDrifting += 1;
  }
  if (sums.cardsUsed > 0 && sums.cardsUsed < sums.cards) sums.nodesPartly = 1;
  if (node.problem) sums.nodesWithProblem = 1;
  return sums;
}

export function hasTrouble(node) {
  const { cardsUnhealthy, cardsUncertain, podsDrifting } = node.sums;
  return Boolean(node.problem) || cardsUnhealthy + cardsUncertain + podsDrifting > 0;
}

const kShow = {
  '': () => true,
  free: (node) => node.sums.cardsFree > 0,
  partly: (node) => node.sums.nodesPartly > 0,
  full: (node) => node.sums.cards > 0 && node.sums.coreFree === 0,
  empty: (node) => node.sums.cards > 0 && node.sums.cardsUsed === 0,
  trouble: hasTrouble,
};

export const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);
export const hasWords = (text, words) => words.every((word) => text.includes(word));

function searchedOf(node) {
  node.searched ??= [node.name, ...new Set(node.cards.map((card) => card.model)), ...node.cards.map((card) => card.uuid),
    ...node.pods.map((pod) => `${pod.namespace}/${pod.name}`)].join('\n').toLowerCase();
  return node.searched;
}

const kByName = new Intl.Collator('en', { numeric: true });
// Names that the collator calls equal still have an order.
const compareNames = (a, b) => kByName.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);

export class Cluster {
  constructor() { this.clear(); }

  clear() {
    this.nodes = new Map();
    this.totals = { ...kNoSums };
    this.models = new Map(); // model -> number of cards
    this.sorted = null; // by name; null: to be sorted again
  }

  // The data of an event `nodes`. Returns the names of the nodes that it changes.
  apply({ restart, nodes, removed }) {
    if (restart) this.clear();
    for (const name of removed) this.remove(name);
    for (const raw of nodes) {
      const node = readNode(raw);
      const before = this.nodes.get(node.name);
      if (before) this.count(before, -1);
      else this.sorted = null;
      this.nodes.set(node.name, node);
      this.count(node, 1);
    }
    return [...removed, ...nodes.map(([name]) => name)];
  }

  remove(name) {
    const node = this.nodes.get(name);
    if (!node) return;
    this.count(node, -1);
    this.nodes.delete(name);
    this.sorted = null;
  }

  count(node, sign) {
    for (const key of Object.keys(kNoSums)) this.totals[key] += sign * node.sums[key];
    for (const { model } of node.cards) {
      const cards = (this.models.get(model) ?? 0) + sign;
      if (cards > 0) this.models.set(model, cards);
      else this.models.delete(model);
    }
  }

  names() {
    this.sorted ??= [...this.nodes.keys()].sort(compareNames);
    return this.sorted;
  }

  all() { return this.names().map((name) => this.nodes.get(name)); }

  matching({ query, model, show }) {
    const words = wordsOf(query);
    const shown = kShow[show] ?? kShow[''];
    return this.all().filter((node) => shown(node) &&
      (!model || node.cards.some((card) => card.model === model)) &&
      (!words.length || hasWords(searchedOf(node), words)));
  }

  pods({ query, model }) {
    const words = wordsOf(query);
    const found = [];
    for (const node of this.nodes.values()) {
      for (const pod of node.pods) {
        const text = `${pod.namespace}/${pod.name}\n${node.name}`.toLowerCase();
        if (words.length && !hasWords(text, words)) continue;
        if (model && !pod.holds.some((hold) => cardOf(node, hold.card)?.model === model)) continue;
        found.push(pod);
      }
    }
    return found.sort((a, b) => compareNames(a.namespace, b.namespace) || compareNames(a.name, b.name) ||
      compareNames(a.node, b.node));
  }

  pod(namespace, name) {
    for (const node of this.nodes.values()) {
      const pod = node.pods.find((one) => one.namespace === namespace && one.name === name);
      if (pod) return pod;
    }
    return null;
  }
}

export const cardOf = (node, index) => node.cards.find((card) => card.index === index);

// The arrays of waiting_pods.h.
export function readWaiting(from) {
  return {
    ...from,
    pods: from.pods.map(([namespace, name, created, priority, containers, reason, message, since, nominated]) => ({
      namespace, name, created: Date.parse(created), priority, reason, message, since: Date.parse(since), nominated,
      containers: containers.map(([container, cards, core, memory]) => ({ name: container, cards, core, memory })),
    })),
  };
}

// "0/3 nodes are available: 1 Insufficient x, 2 node(s) had ... ." in its parts.
export function reasonsOf(message) {
  const found = /^(\d+\/\d+ nodes are available): ([^]*)$/.exec(message);
  if (!found) return { summary: message, reasons: [] };
  const [reasons, ...rest] = found[2].split(/\. (?=[a-z]+: |[A-Z])|\.$/).filter(Boolean);
  const parts = (reasons ?? '').split(/, (?=\d+ )/).map((part) => /^(\d+) ([^]*)$/.exec(part.trim())).filter(Boolean);
  if (!parts.length) return { summary: message, reasons: [] };
  return {
    summary: [`${found[1]}`, ...rest].join('. '),
    reasons: parts.map(([, count, text]) => ({ count: Number(count), text })),
  };
}

// The arrays of history.h.
export function readPoint([at, core, memory, coreInParts, cardsFree, nodesPartly, pods]) {
  return { at, core, memory, coreInParts, cardsFree, nodesPartly, pods };
}
