// The cluster as the extender has sent it. Nothing here touches the document.

// The arrays of node_text.h.
function readCard(from) {
  const [index, uuid, model, flags, ...amounts] = from; // and last what is wrong
  const [core, memory] = [amounts.slice(0, 4), amounts.slice(4, 8)].map(
    ([capacity, used, free, expected]) => ({ capacity, used, free, expected }));
  return { index, uuid, model, healthy: (flags & 1) !== 0, uncertain: (flags & 2) !== 0,
    cordoned: (flags & 4) !== 0, reserved: (flags & 8) !== 0, mig: (flags & 16) !== 0, health: amounts[8] ?? '', core, memory, holds: [] };
}

function readPod(from, node) {
  const [namespace, name, phase, priority, drift, holds] = from;
  return {
    namespace, name, node, priority, drift, bound: phase === 1,
    holds: holds.map(([card, core, memory]) => ({ card, core, memory })),
  };
}

export function readNode(from) {
  const [name, problem, cards, pods, kept = ''] = from;
  const node = { name, problem, kept, cards: cards.map(readCard), pods: pods.map((pod) => readPod(pod, name)) };
  const byIndex = new Map(node.cards.map((card) => [card.index, card]));
  for (const pod of node.pods) {
    for (const hold of pod.holds) byIndex.get(hold.card)?.holds.push({ pod, core: hold.core, memory: hold.memory });
  }
  return { ...node, sums: sumsOf(node), searched: null };
}

export const isUsed = (card) => card.core.used > 0 || card.memory.used > 0;
export const isUsable = (card) => card.healthy && !card.uncertain && !card.cordoned;
// The profile of a node keeps reserved cards from pods; nothing is wrong with them.
export const isUnhealthy = (card) => !card.healthy && !card.reserved;
// Only pods that name MIG devices get them, so that they are not among the free cards.
export const isFree = (card) => isUsable(card) && !isUsed(card) && !card.mig;
// Compute or memory, of which the greater part is granted.
export const scarcer = (card) =>
  (card.core.used * card.memory.capacity >= card.memory.used * card.core.capacity ? 'core' : 'memory');

const kNoSums = {
  nodes: 0, cards: 0, cardsUsed: 0, cardsFree: 0, cardsUnhealthy: 0, cardsUncertain: 0, cardsCordoned: 0, core: 0, coreUsed: 0,
  coreFree: 0, coreFreeInParts: 0, memory: 0, memoryUsed: 0, memoryFree: 0, podsBound: 0, podsAssumed: 0,
  podsDrifting: 0, nodesPartly: 0, nodesWithProblem: 0,
};

function sumsOf(node) {
  const sums = { ...kNoSums, nodes: 1 };
  for (const card of node.cards) {
    sums.cards += 1;
    sums.core += card.core.capacity;
    sums.coreUsed += card.core.used;
    if (!card.mig) sums.coreFree += card.core.free;
    sums.memory += card.memory.capacity;
    sums.memoryUsed += card.memory.used;
    if (!card.mig) sums.memoryFree += card.memory.free;
    if (isUsed(card)) sums.cardsUsed += 1;
    if (isUsed(card) && !card.mig) sums.coreFreeInParts += card.core.free;
    if (isFree(card)) sums.cardsFree += 1;
    if (isUnhealthy(card)) sums.cardsUnhealthy += 1;
    if (card.cordoned) sums.cardsCordoned += 1;
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
  const { cardsUnhealthy, cardsUncertain, cardsCordoned, podsDrifting } = node.sums;
  return Boolean(node.problem) || cardsUnhealthy + cardsUncertain + cardsCordoned + podsDrifting > 0;
}

const sumOf = (pod, what) => pod.holds.reduce((sum, hold) => sum + hold[what], 0);
const requested = (pod, of) => pod.containers.reduce((sum, one) => sum + one.cards * of(one), 0);
const byName = (a, b) => compareNames(a.name, b.name);
const byPodName = (a, b) => compareNames(a.namespace, b.namespace) || byName(a, b) || compareNames(a.node ?? '', b.node ?? '');
// The greatest first, or the smallest.
const most = (of) => (a, b) => of(b) - of(a);
const part = (of, capacity) => (node) => node.sums[of] / Math.max(1, node.sums[capacity]);

// What each list can show, and in which orders: value, name, and a predicate or a comparison. Equal rows are
// in the first order.
export const kLists = {
  nodes: {
    shows: [['', 'all nodes', () => true], ['free', 'with a free card', (node) => node.sums.cardsFree > 0],
      ['partly', 'partly used', (node) => node.sums.nodesPartly > 0],
      ['full', 'full', (node) => node.sums.cards > 0 && node.sums.coreFree === 0],
      ['empty', 'empty', (node) => node.sums.cards > 0 && node.sums.cardsUsed === 0],
      ['unhealthy', 'with an unhealthy card', (node) => node.sums.cardsUnhealthy > 0],
      ['cordoned', 'with a cordoned card', (node) => node.sums.cardsCordoned > 0], ['trouble', 'with a problem', hasTrouble]],
    sorts: [['', 'name', byName], ['free', 'free cards', most((node) => node.sums.cardsFree)],
      ['core', 'compute granted', most(part('coreUsed', 'core'))], ['memory', 'memory granted', most(part('memoryUsed', 'memory'))],
      ['pods', 'number of pods', most((node) => node.pods.length)]],
  },
  pods: {
    shows: [['', 'all pods', () => true], ['idle', 'idle for an hour', (pod) => pod.idle], ['binding', 'being bound', (pod) => !pod.bound],
      ['drift', 'with drift', (pod) => pod.drift]],
    sorts: [['', 'name', byPodName], ['node', 'node', (a, b) => compareNames(a.node, b.node)], ['core', 'compute', most((pod) => sumOf(pod, 'core'))],
      ['memory', 'memory', most((pod) => sumOf(pod, 'memory'))], ['priority', 'priority', most((pod) => pod.priority)]],
  },
  waiting: {
    shows: [],
    sorts: [['', 'longest pending', (a, b) => a.created - b.created || byPodName(a, b)], ['name', 'name', byPodName],
      ['priority', 'priority', most((pod) => pod.priority)], ['core', 'compute', most((pod) => requested(pod, (one) => one.core))],
      ['memory', 'memory', most((pod) => requested(pod, (one) => Math.max(0, one.memory)))]],
  },
};

// `items` are in the first order.
export function sorted(tab, sort, items) {
  const chosen = kLists[tab].sorts.find(([value]) => value === sort);
  return !sort || !chosen ? items : items.toSorted(chosen[2]);
}

export const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);
export const hasWords = (text, words) => words.every((word) => text.includes(word));

function searchedOf(node) {
  node.searched ??= [node.name, ...new Set(node.cards.map((card) => card.model)), ...node.cards.map((card) => card.uuid),
    ...node.pods.map((pod) => `${pod.namespace}/${pod.name}`)].join('\n').toLowerCase();
  return node.searched;
}

const shownBy = (tab, show) => (kLists[tab].shows.find(([value]) => value === show) ?? kLists[tab].shows[0])[2];

const kByName = new Intl.Collator('en', { numeric: true });
// Names that the collator calls equal still have an order.
const compareNames = (a, b) => kByName.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);

export class Cluster {
  constructor() {
    this.idle = new Set(); // "namespace/name" of pods that have used nothing for an hour
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.totals = { ...kNoSums };
    this.models = new Map(); // model -> { cards, free }
    this.namespaces = new Map(); // namespace -> { core, memory, pods } that it holds
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
    for (const card of node.cards) {
      const of = this.models.get(card.model) ?? { cards: 0, free: 0 };
      of.cards += sign;
      if (isFree(card)) of.free += sign;
      if (of.cards > 0) this.models.set(card.model, of);
      else this.models.delete(card.model);
    }
    for (const pod of node.pods) {
      const sums = this.namespaces.get(pod.namespace) ?? { core: 0, memory: 0, pods: 0 };
      sums.core += sign * sumOf(pod, 'core');
      sums.memory += sign * sumOf(pod, 'memory');
      sums.pods += sign;
      if (sums.pods > 0) this.namespaces.set(pod.namespace, sums);
      else this.namespaces.delete(pod.namespace);
    }
  }

  names() {
    this.sorted ??= [...this.nodes.keys()].sort(compareNames);
    return this.sorted;
  }

  all() { return this.names().map((name) => this.nodes.get(name)); }

  matching({ query, model, show }) {
    const words = wordsOf(query);
    const shown = shownBy('nodes', show);
    return this.all().filter((node) => shown(node) &&
      (!model || node.cards.some((card) => card.model === model)) &&
      (!words.length || hasWords(searchedOf(node), words)));
  }

  pods({ query, model, show }) {
    const words = wordsOf(query);
    const shown = shownBy('pods', show);
    const found = [];
    for (const node of this.nodes.values()) {
      for (const pod of node.pods) {
        pod.idle = this.idle.has(`${pod.namespace}/${pod.name}`);
        if (!shown(pod)) continue;
        const text = `${pod.namespace}/${pod.name}\n${node.name}`.toLowerCase();
        if (words.length && !hasWords(text, words)) continue;
        if (model && !pod.holds.some((hold) => cardOf(node, hold.card)?.model === model)) continue;
        found.push(pod);
      }
    }
    return found.sort(byPodName);
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

// "0/3 nodes are available: 1 Insufficient x, 2 node(s) had ..." in its parts.
function countsIn(text) {
  const found = /^(\d+\/\d+ nodes are available): ([^]*)$/.exec(text);
  const parts = (found?.[2] ?? '').split(/, (?=\d+ )/).map((part) => /^(\d+) ([^]*)$/.exec(part.trim()));
  if (!parts.every(Boolean)) return { summary: text, reasons: [] };
  return { summary: found[1], reasons: parts.map(([, count, reason]) => ({ count: Number(count), text: reason })) };
}

// What kube-scheduler says has two lists with numbers of nodes: why the pod fits none, and then why evicting
// others does not help. Between them plugins may say more.
export function reasonsOf(message) {
  const [, first, more, evicting] = /^([^]*?)(?:\.(?: ([^]*?))?)?(?:[,.]? ?preemption: ([^]*?)\.?)?$/.exec(message);
  return { ...countsIn(first), more: more ?? '', evicting: evicting ? countsIn(evicting) : null };
}

// The arrays of history.h.
export function readPoint([at, core, memory, coreInParts, cardsFree, nodesPartly, pods, coreUsed, memoryUsed]) {
  return { at, core, memory, coreInParts, cardsFree, nodesPartly, pods, coreUsed, memoryUsed };
}
