// The page: events come in, and what has changed is drawn with the next frame.
import { drawHistory } from './chart.js';
import { Detail, nodeRoute, podRoute } from './detail.js';
import { byId, element, setText } from './dom.js';
import { VirtualList } from './list.js';
import { Cluster, cardOf, hasWords, readPoint, readWaiting, wordsOf } from './model.js';
import { Overview } from './overview.js';
import { cardText, kNodeRows, kPodRows, kWaitingRows } from './rows.js';
import { Stream } from './stream.js';
import { clock, dayAndClock, harmless, memory, number, percentText, plural, tenth } from './text.js';

const cluster = new Cluster();
const state = {
  tab: 'nodes', synced: false, connection: 'connecting', refusal: '', lostAt: 0, status: null, hello: null,
  waiting: { listed: false, pods: [] }, history: { points: [], interval: 0, source: '', problem: '' },
};
// What has to be drawn again.
const dirty = { nodes: new Set(), cards: false, list: false, waiting: false, history: false, frame: 0 };

const filters = () => ({ query: byId('query').value, model: byId('model').value, show: byId('show').value });

const detail = new Detail({
  node: (name) => cluster.nodes.get(name) ?? null,
  pod: (namespace, name) => cluster.pod(namespace, name),
  waiting: (namespace, name) => state.waiting.pods.find((pod) => pod.namespace === namespace && pod.name === name) ?? null,
});

const routes = { nodes: (node) => nodeRoute(node.name), pods: podRoute, waiting: podRoute };
const list = new VirtualList(byId('list'), { onOpen: (item) => { location.hash = routes[state.tab](item); } });

const overview = new Overview(byId('overview'), {
  onPick: ({ node }) => { location.hash = nodeRoute(node.name); },
  onPoint: (cell) => drawCaption(cell),
});

// --- drawing -------------------------------------------------------------------------------------

function schedule() {
  if (!dirty.frame) dirty.frame = requestAnimationFrame(draw);
}

function draw() {
  dirty.frame = 0;
  performance.mark('mgpu-draw-begin');
  const changed = [...dirty.nodes].map((name) => cluster.nodes.get(name)).filter(Boolean);
  if (changed.length || dirty.cards || dirty.list || dirty.waiting) {
    drawTotals();
    drawModels();
    drawList();
    if (dirty.cards || dirty.list) drawOverview();
    else overview.update(changed);
    detail.draw();
  }
  if (dirty.history) drawHistoryPart();
  Object.assign(dirty, { cards: false, list: false, waiting: false, history: false });
  dirty.nodes.clear();
  measure();
}

// For bench/web.sh.
function measure() {
  performance.measure('mgpu-draw', 'mgpu-draw-begin');
  if (cluster.nodes.size) markOnce('mgpu-first-nodes');
  if (state.synced) markOnce('mgpu-drawn');
  performance.clearMarks('mgpu-draw-begin');
  if (performance.getEntriesByName('mgpu-draw').length > 100) performance.clearMeasures('mgpu-draw');
}

function markOnce(name) {
  if (!performance.getEntriesByName(name).length) performance.mark(name);
}

function total(name, value, note, key) {
  return element('div', { 'data-total': key }, element('dt', {}, name), element('dd', {}, element('strong', {}, value), note ? element('small', {}, note) : null));
}

function drawTotals() {
  const all = cluster.totals;
  const waiting = state.waiting.pods.length + (state.waiting.more ?? 0);
  byId('totals').replaceChildren(
    total('Cards', number(all.cards), `on ${plural(all.nodes, 'node')}`, 'cards'),
    total('Compute granted', percentText(all.coreUsed, all.core), `${tenth(all.coreUsed / 100)} of ${tenth(all.core / 100)} cards`, 'core'),
    total('Memory granted', percentText(all.memoryUsed, all.memory), `${memory(all.memoryUsed)} of ${memory(all.memory)}`, 'memory'),
    total('Free cards', number(all.cardsFree), 'healthy, and nothing is granted', 'free'),
    total('Fragmentation', percentText(all.coreFreeInParts, all.coreFree),
      `of the free compute is on partly used cards; ${plural(all.nodesPartly, 'node is', 'nodes are')} partly used`, 'fragmentation'),
    total('Pods with cards', number(all.podsBound), all.podsAssumed ? `and ${number(all.podsAssumed)} being bound` : 'bound', 'pods'),
    total('Waiting pods', state.waiting.listed ? number(waiting) : '…', state.waiting.problem ? harmless(state.waiting.problem) : 'request cards', 'waiting'),
    total('Unhealthy cards', number(all.cardsUnhealthy), all.podsDrifting ? `${plural(all.podsDrifting, 'pod')} with drift` : 'no drift', 'unhealthy'));
}

function drawModels() {
  const select = byId('model');
  const models = [...cluster.models.keys()].sort();
  const key = JSON.stringify(models);
  if (select.models === key) return;
  select.models = key;
  const chosen = select.value;
  select.replaceChildren(element('option', { value: '' }, 'all models'),
    ...models.filter(Boolean).map((model) => element('option', { value: model }, harmless(model).slice(0, 80))));
  select.value = models.includes(chosen) ? chosen : '';
}

function waitingMatching() {
  const words = wordsOf(filters().query);
  return state.waiting.pods.filter((pod) => hasWords(`${pod.namespace}/${pod.name}\n${pod.message}`.toLowerCase(), words));
}

function drawList() {
  const use = filters();
  const [kind, items, of] = {
    nodes: () => [kNodeRows, cluster.matching(use), cluster.nodes.size],
    pods: () => [kPodRows, cluster.pods(use), cluster.totals.podsBound + cluster.totals.podsAssumed],
    waiting: () => [kWaitingRows, waitingMatching(), state.waiting.pods.length],
  }[state.tab]();
  list.show(kind, items);
  byId('list').setAttribute('aria-label', kind.name);
  const names = { nodes: 'node', pods: 'pod', waiting: 'waiting pod' };
  const more = state.tab === 'waiting' && state.waiting.more ? `, and ${number(state.waiting.more)} more that are not shown` : '';
  const what = plural(of, names[state.tab]);
  setText(byId('count'), items.length === of ? (of || state.synced ? `${of ? what : `No ${names[state.tab]}s`}${more}` : '') : `${number(items.length)} of ${what}${more}`);
  state.matching = state.tab === 'nodes' && items.length !== of ? new Set(items.map((node) => node.name)) : null;
}

function drawOverview() {
  overview.show(cluster.all(), state.matching);
  const { cards, cardsFree, cardsUnhealthy, cardsUsed } = cluster.totals;
  byId('overview').setAttribute('aria-label', cards
    ? `${plural(cards, 'card')} as squares: ${number(cardsUsed)} used, ${number(cardsFree)} free, ${number(cardsUnhealthy)} unhealthy. The list below has the same.`
    : 'No cards');
  drawCaption(null);
}

function drawCaption(cell) {
  setText(byId('overview-caption'), cell ? `${harmless(cell.node.name)}, ${cardText(cell.card)}`
    : cluster.totals.cards ? 'One square is one card; the stronger its color, the more of it is granted. Choose one to see its node.'
      : state.synced ? 'The cluster has no cards.' : '');
}

function drawHistoryPart() {
  if (!byId('history').open) return;
  setText(byId('history-source'), historySource());
  drawHistory(byId('history-chart'), byId('history-table'), state.history.points);
}

function historySource() {
  const { interval, source, problem } = state.history;
  if (!state.hello || !source) return '';
  if (source === 'prometheus') return `From Prometheus, the last 24 hours, every ${interval} s.`;
  const since = `Since this extender started at ${dayAndClock(state.hello.started)}, every ${interval} s.`;
  return problem ? `${since} The history of Prometheus cannot be shown: ${harmless(problem)}.` : since;
}

// --- connection ----------------------------------------------------------------------------------

const kConnections = {
  connecting: () => 'Connecting…',
  live: () => (state.synced ? 'Live' : 'Loading…'),
  lost: () => 'Connection lost',
  paused: () => 'Paused while in the background',
};

function noticeText() {
  if (state.connection === 'lost') {
    const since = state.synced ? `The page shows the state of ${clock(state.lostAt)}. ` : '';
    return `The connection to the extender is lost. ${harmless(state.refusal)} ${since}Trying again…`.replace('  ', ' ');
  }
  const status = state.status;
  if (!status || state.connection !== 'live') return '';
  const parts = [];
  if (status.draining) parts.push('The extender is shutting down.');
  if (status.waiting_for) parts.push(`The extender is not ready, and waits for ${status.waiting_for.map(harmless).join(', ')}.`);
  if (status.role === 'follower') parts.push('This replica follows; another one decides. Pods that are being bound there are not shown.');
  if (status.api_server && status.api_server !== 'answers') parts.push(`The API server: ${harmless(status.api_server)}. The page shows the state before.`);
  if (status.unreadable_objects) {
    const objects = Object.entries(status.unreadable_objects).map(([kind, count]) => `${number(count)} ${harmless(kind)}`);
    parts.push(`Skipped because they cannot be read: ${objects.join(', ')}.`);
  }
  return parts.join(' ');
}

function drawConnection() {
  document.documentElement.dataset.state = state.connection === 'live' && !state.synced ? 'loading' : state.connection;
  setText(byId('connection'), kConnections[state.connection]());
  const text = noticeText();
  byId('notice').hidden = !text;
  setText(byId('notice'), text);
}

const kTakers = {
  hello(hello) {
    state.hello = hello;
    if (hello.restarted) { cluster.clear(); state.synced = false; dirty.cards = true; }
  },
  nodes(data) {
    const before = cluster.totals.cards;
    const counts = new Map([...data.nodes].map(([name]) => [name, cluster.nodes.get(name)?.cards.length]));
    for (const name of cluster.apply(data)) dirty.nodes.add(name);
    const moved = data.removed.length || data.restart || before !== cluster.totals.cards ||
      [...counts].some(([name, cards]) => cluster.nodes.get(name).cards.length !== cards);
    if (moved) dirty.cards = true;
  },
  synced() {
    state.synced = true;
    dirty.cards = true;
    markOnce('mgpu-synced');
  },
  waiting(data) {
    state.waiting = readWaiting(data);
    dirty.waiting = true;
  },
  history({ restart, source, intervalSeconds, points, problem }) {
    const before = restart ? [] : state.history.points;
    state.history = { points: [...before, ...points.map(readPoint)], interval: intervalSeconds, source, problem: problem ?? '' };
    dirty.history = true;
  },
  status(status) { state.status = status; },
  beat() {},
};

const stream = new Stream({
  onEvent(name, data) {
    kTakers[name](data);
    drawConnection();
    schedule();
  },
  onState(connection, refusal) {
    if (connection === 'lost' && state.connection !== 'lost') state.lostAt = Date.now();
    Object.assign(state, { connection, refusal });
    drawConnection();
  },
});

// --- controls ------------------------------------------------------------------------------------

function choose(tab, focus) {
  state.tab = tab;
  for (const button of document.querySelectorAll('[role=tab]')) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute('aria-selected', String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) button.focus();
  }
  byId('panel').setAttribute('aria-labelledby', `tab-${tab}`);
  byId('show').disabled = tab !== 'nodes';
  byId('model').disabled = tab === 'waiting';
  dirty.list = true;
  schedule();
}

byId('tabs').addEventListener('click', (event) => { if (event.target.dataset.tab) choose(event.target.dataset.tab, false); });
byId('tabs').addEventListener('keydown', (event) => {
  const tabs = ['nodes', 'pods', 'waiting'];
  const at = tabs.indexOf(state.tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(tabs[(to + tabs.length) % tabs.length], true);
});
byId('filters').addEventListener('submit', (event) => event.preventDefault());
byId('filters').addEventListener('input', () => { dirty.list = true; schedule(); });
byId('skip').addEventListener('click', () => { byId('list').focus(); byId('list').scrollIntoView(); });
byId('history').addEventListener('toggle', () => { dirty.history = true; schedule(); });
addEventListener('resize', () => { dirty.cards = true; schedule(); });
addEventListener('hashchange', () => {
  detail.go(location.hash);
  if (!location.hash.slice(1)) byId('list').focus({ preventScroll: true });
});
document.addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, select, textarea, dialog');
  if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  byId('query').focus();
});

drawConnection();
stream.open();
detail.go(location.hash);
// Times such as "waits 5 min".
setInterval(() => { if (state.tab === 'waiting' && state.waiting.pods.length) { state.waiting.pods = state.waiting.pods.map((pod) => ({ ...pod })); dirty.waiting = true; schedule(); } }, 30_000);
