// The page: events come in, and what has changed is drawn with the next frame.
import { drawAttention, drawGranted } from './attention.js';
import { drawHistory } from './chart.js';
import { giveColors } from './colors.js';
import { Detail, nodeRoute, podRoute } from './detail.js';
import { byId, element, setText } from './dom.js';
import { onHelp } from './help.js';
import { VirtualList } from './list.js';
import { Cluster, hasWords, kLists, readPoint, readWaiting, sorted, wordsOf } from './model.js';
import { Overview } from './overview.js';
import { cardText, drawPending, kNodeRows, kPodRows, kWaitingRows, podName } from './rows.js';
import { Stream } from './stream.js';
import { clock, dayAndClock, harmless, number, plural } from './text.js';

const kPendingShown = 6; // beside the cards

const cluster = new Cluster();
const state = {
  tab: 'nodes', synced: false, connection: 'connecting', refusal: '', lostAt: 0, status: null, hello: null,
  waiting: { listed: false, pods: [] }, history: { points: [], interval: 0, source: '', problem: '' },
};
// What has to be drawn again.
const dirty = { nodes: new Set(), cards: false, list: false, waiting: false, history: false, frame: 0 };

const filters = () => ({ query: byId('query').value, model: byId('model').value, show: byId('show').value, sort: byId('sort').value });

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

onHelp(() => {
  list.refresh();
  dirty.waiting = true;
  schedule();
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
    if (giveColors(cluster.namespaces)) {
      dirty.cards = true;
      list.refresh();
    }
    drawFirst();
    drawModels();
    drawList();
    // While many nodes arrive, the overview is drawn again when half as many have come.
    const drawn = overview.places.size;
    if (!dirty.cards && !dirty.list) overview.update(changed);
    else if (state.synced || cluster.nodes.size > 1.5 * drawn) drawOverview();
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

function drawFirst() {
  drawAbout();
  const idle = cluster.idle.size ? cluster.pods({ query: '', model: '', show: 'idle' }) : [];
  drawAttention(cluster, state.waiting, idle, (tab, show) => {
    choose(tab, false);
    byId('show').value = show;
    find('');
  });
  const measured = state.history.source === 'prometheus' ? state.history.points.at(-1) : null;
  drawGranted(cluster, measured, filters().query, find);
  drawPendingPods();
}

function drawAbout() {
  const { nodes, cards, podsBound, podsAssumed } = cluster.totals;
  const { version, policy, instance } = state.hello ?? {};
  const fact = (key, value, what) => [element('span', { 'data-total': key }, element('strong', {}, number(value)), ` ${what}`), ' · '];
  const role = state.status?.role === 'follower' ? 'follower' : 'leader';
  byId('about').replaceChildren(...fact('nodes', nodes, nodes === 1 ? 'node' : 'nodes'), ...fact('cards', cards, cards === 1 ? 'card' : 'cards'),
    ...fact('pods', podsBound, `${podsBound === 1 ? 'pod' : 'pods'}${podsAssumed ? ` and ${number(podsAssumed)} being bound` : ''}`),
    ...(state.hello ? [`policy ${policy} · ${role} `, element('bdi', {}, harmless(instance)), ` · ${version}`] : []));
}

function drawPendingPods() {
  const { pods, more = 0 } = state.waiting;
  byId('pending').hidden = !pods.length;
  const box = byId('pending-list');
  const held = box.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  box.replaceChildren(...pods.slice(0, kPendingShown).map((pod) => {
    const item = element('li', {});
    drawPending(item, pod, element('a', { class: 'name', href: `#${podRoute(pod)}` }, element('bdi', {}, podName(pod))));
    return item;
  }));
  if (held) box.querySelector(`[href="${CSS.escape(held)}"]`)?.focus();
  byId('pending-all').hidden = pods.length <= kPendingShown;
  setText(byId('pending-all'), `All ${plural(pods.length + more, 'pending pod')}`);
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

function waitingMatching({ query }) {
  const words = wordsOf(query);
  return state.waiting.pods.filter((pod) => hasWords(`${pod.namespace}/${pod.name}\n${pod.message}`.toLowerCase(), words));
}

function drawList() {
  const use = filters();
  const [kind, items, of] = {
    nodes: () => [kNodeRows, cluster.matching(use), cluster.nodes.size],
    pods: () => [kPodRows, cluster.pods(use), cluster.totals.podsBound + cluster.totals.podsAssumed],
    waiting: () => [kWaitingRows, waitingMatching(use), state.waiting.pods.length],
  }[state.tab]();
  list.show(kind, sorted(state.tab, use.sort, items));
  byId('list').setAttribute('aria-label', kind.name);
  const names = { nodes: 'node', pods: 'pod', waiting: 'pending pod' };
  const more = state.tab === 'waiting' && state.waiting.more ? `, and ${number(state.waiting.more)} more that are not shown` : '';
  const what = plural(of, names[state.tab]);
  setText(byId('count'), items.length === of ? (of || state.synced ? `${of ? what : `No ${names[state.tab]}s`}${more}` : '') : `${number(items.length)} of ${what}${more}`);
  state.matching = state.tab === 'nodes' && items.length !== of ? new Set(items.map((node) => node.name)) : null;
}

function drawOverview() {
  overview.show(cluster.all(), state.matching);
  drawCaption(null);
}

function drawCaption(cell) {
  const legend = ['A column is a card, filled by what is granted of its compute or memory, whichever is more. ',
    element('span', { class: 'framed bad' }, 'unhealthy'), ' ', element('span', { class: 'framed warn' }, 'cordoned or blocked')];
  const caption = byId('overview-caption');
  if (cell) setText(caption, `${harmless(cell.node.name)}, ${cardText(cell.card)}${cell.card.holds.length ? `: ${cell.card.holds.map((hold) => podName(hold.pod)).join(', ')}` : ''}`);
  else if (cluster.totals.cards) caption.replaceChildren(...legend);
  else setText(caption, state.synced ? 'The cluster has no cards.' : '');
}

function drawHistoryPart() {
  if (!byId('history').open) return;
  setText(byId('history-source'), historySource());
  drawHistory(byId('history-chart'), byId('history-table'), state.history.points, Number(byId('range').value));
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
    dirty.waiting = true;
    if (hello.restarted) { cluster.clear(); state.synced = false; dirty.cards = true; }
  },
  nodes(data) {
    // The groups of the overview stay while no node has other cards.
    const cardsOf = (name) => JSON.stringify(cluster.nodes.get(name)?.cards.map((card) => card.model));
    const before = new Map(data.nodes.map(([name]) => [name, cardsOf(name)]));
    for (const name of cluster.apply(data)) dirty.nodes.add(name);
    if (data.removed.length || data.restart || [...before].some(([name, cards]) => cardsOf(name) !== cards)) dirty.cards = true;
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
  history({ restart, source, intervalSeconds, points, problem, idle = [] }) {
    const before = restart ? [] : state.history.points;
    state.history = { points: [...before, ...points.map(readPoint)], interval: intervalSeconds, source, problem: problem ?? '' };
    if (restart) {
      cluster.idle = new Set(idle.map(([namespace, name]) => `${namespace}/${name}`));
      list.refresh();
      dirty.waiting = true;
    }
    dirty.history = true;
  },
  status(status) {
    state.status = status;
    dirty.waiting = true;
  },
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

function fill(select, options) {
  select.replaceChildren(...options.map(([value, name]) => element('option', { value }, name)));
  select.parentElement.hidden = !options.length;
}

function choose(tab, focus) {
  state.tab = tab;
  for (const button of document.querySelectorAll('[role=tab]')) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute('aria-selected', String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) button.focus();
  }
  byId('panel').setAttribute('aria-labelledby', `tab-${tab}`);
  fill(byId('show'), kLists[tab].shows);
  fill(byId('sort'), kLists[tab].sorts);
  byId('model').parentElement.hidden = tab === 'waiting';
  dirty.list = true;
  schedule();
}

// Shows the list with what the words find.
function find(words) {
  byId('query').value = words;
  byId('model').value = '';
  dirty.list = true;
  schedule();
  byId('tabs').scrollIntoView({ block: 'nearest' });
}

byId('tabs').addEventListener('click', (event) => { if (event.target.dataset.tab) choose(event.target.dataset.tab, false); });
byId('tabs').addEventListener('keydown', (event) => {
  const tabs = Object.keys(kLists);
  const at = tabs.indexOf(state.tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(tabs[(to + tabs.length) % tabs.length], true);
});
byId('filters').addEventListener('submit', (event) => event.preventDefault());
byId('filters').addEventListener('input', () => { dirty.list = true; schedule(); });
byId('skip').addEventListener('click', () => { byId('list').focus(); byId('list').scrollIntoView(); });
byId('pending-all').addEventListener('click', () => { choose('waiting', false); find(''); });
for (const [id, event] of [['history', 'toggle'], ['range', 'change']]) {
  byId(id).addEventListener(event, () => { dirty.history = true; schedule(); });
}
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

choose('nodes', false);
byId('history').open = innerWidth >= 1100;
drawConnection();
stream.open();
detail.go(location.hash);
// Times such as "5 min", and what would help by now.
setInterval(() => {
  if (!state.waiting.pods.length) return;
  list.refresh();
  dirty.waiting = true;
  schedule();
}, 30_000);
