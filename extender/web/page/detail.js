// The dialog about one node, one pod, or one pod that waits.
import { byId, element } from './dom.js';
import { cardOf, reasonsOf } from './model.js';
import { colorOf } from './colors.js';
import { helpOf } from './help.js';
import { cardBars, cardState, podFacts, podName, requestText, waitedText } from './rows.js';
import { clock, dayAndClock, harmless, memory, number, plural, tenth } from './text.js';

const kNodesShown = 20;
// While a pod is shown, its use is asked again after this time.
const kUseInterval = 10_000;

async function read(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { cache: 'no-store' });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? `status ${answer.status}`);
  return body;
}

const link = (route, text) => element('a', { href: `#${route}` }, element('bdi', {}, text));
export const nodeRoute = (name) => `/node/${encodeURIComponent(name)}`;
export const podRoute = (pod) => `/pod/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`;

function facts(...pairs) {
  return element('dl', { class: 'pairs' }, pairs.filter(([, value]) => value !== null && value !== '').map(([name, value]) =>
    element('div', {}, element('dt', {}, name), element('dd', {}, value))));
}

// "NV2 to card 1; NODE to cards 2, 3"
const linksText = (card) => card.links?.map(({ link: name, cards }) =>
  `${harmless(name)} to ${cards.length === 1 ? 'card' : 'cards'} ${cards.join(', ')}`).join('; ') || 'none known';

// `placed` has the NUMA nodes and links of the cards by their indices; null where none are known.
function cardTable(node, rows, placed = null) {
  const head = ['card', 'model', 'compute granted', 'memory granted', 'pods', ...(placed ? ['NUMA node', 'links'] : [])];
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Cards of ${harmless(node.name)}` },
    element('table', { class: 'cards-table' },
      element('thead', {}, element('tr', {}, head.map((text) => element('th', { scope: 'col' }, text)))),
      element('tbody', {}, rows.map((card) => cardRow(card, placed)))));
}

function cardRow(card, placed) {
  const place = placed?.get(card.index) ?? {};
  const state = cardState(card);
  const pods = card.holds.map((hold) => element('li', {}, element('span', { class: `dot space-${colorOf(hold.pod.namespace)}` }),
    link(podRoute(hold.pod), podName(hold.pod)), ` ${number(hold.core)} %, ${memory(hold.memory)}`));
  return element('tr', { 'data-card': card.index, class: state ? 'troubled' : null },
    element('th', { scope: 'row' }, String(card.index), cardBars(card)),
    element('td', {}, element('bdi', {}, harmless(card.model) || 'unknown'), element('br'), element('bdi', { class: 'uuid' }, harmless(card.uuid)),
      state ? element('strong', { class: 'trouble' }, element('br'), state) : null),
    element('td', { class: 'amount' }, `${number(card.core.used)} of ${number(card.core.capacity)} %`),
    element('td', { class: 'amount' }, `${memory(card.memory.used)} of ${memory(card.memory.capacity)}`),
    element('td', {}, pods.length ? element('ul', {}, pods) : 'none'),
    placed ? [element('td', {}, String(place.numa ?? 'not known')), element('td', {}, linksText(place))] : null);
}

// What /inspect/node says of the places of the cards.
function placesOf(answer) {
  const some = answer?.cards?.some((card) => card.numa !== undefined || card.links?.length);
  return some ? new Map(answer.cards.map((card) => [card.index, card])) : null;
}

// Lines for a terminal, each with a button that copies it.
function commands(...lines) {
  return element('div', { class: 'commands' }, lines.map((line) => {
    const code = element('code', {}, line);
    const copy = async ({ currentTarget: button }) => {
      getSelection().selectAllChildren(code);
      try { await navigator.clipboard.writeText(line); } catch { return; } // it is selected, at least
      button.textContent = 'Copied';
    };
    return element('p', {}, code, element('button', { type: 'button', 'data-copy': line, 'aria-label': `Copy ${line}`, click: copy }, 'Copy'));
  }));
}

function nodeBody(node, answer) {
  const { sums } = node;
  const placed = placesOf(answer);
  return [
    node.problem ? element('p', { class: 'trouble' }, element('bdi', {}, harmless(node.problem))) : null,
    facts(['kept from pods by', harmless(node.kept)], ['cards', number(node.cards.length)], ['compute granted', `${number(sums.coreUsed)} of ${number(sums.core)} %`],
      ['memory granted', `${memory(sums.memoryUsed)} of ${memory(sums.memory)}`], ['pods with cards', number(node.pods.length)],
      ['free cards', number(sums.cardsFree)], ['unhealthy cards', number(sums.cardsUnhealthy)],
      ['free compute on partly used cards', `${number(sums.coreFreeInParts)} of ${number(sums.coreFree)} %`]),
    cardTable(node, node.cards, placed),
    placed ? element('p', { class: 'caption' }, 'Links as nvidia-smi topo -m names them: NV2 is two NVLinks.') : null,
    answer?.error ? element('p', { class: 'caption' }, `The links cannot be shown: ${harmless(answer.error)}`) : null,
    commands(`kubectl mgpu cards -o wide ${node.name}`, `kubectl describe node ${node.name}`)];
}

// One step on the way of a pod from request to card to use.
const step = (title, ...content) => element('li', {}, element('h3', {}, title), ...content);

function requestOf(explained) {
  if (!explained) return element('p', {}, 'Reading…');
  if (explained.error) return element('p', {}, `The request cannot be shown: ${harmless(explained.error)}`);
  const rows = explained.request.containers.map((container) => element('li', {}, element('bdi', {}, harmless(container.name)),
    ` (${container.kind}): ${plural(container.cards, 'card')}, ` + (container.memoryMiB === undefined
      ? 'whole' : `${number(container.core)} % and ${memory(container.memoryMiB)} of each`)));
  return element('div', {}, rows.length ? element('ul', {}, rows) : element('p', {}, harmless(explained.message ?? 'no cards')),
    explained.policy ? element('p', { class: 'caption' }, `Policy for nodes/cards: ${harmless(explained.policy)}`) : null);
}

// "12.5 of 30 %", above a bar.
function usedCell({ granted, used }, write) {
  const known = used !== undefined;
  const bar = element('span', { class: 'use-bar', 'aria-hidden': 'true' }, element('span', {}));
  bar.firstChild.style.width = `${known && granted ? Math.min(100, (100 * used) / granted) : 0}%`;
  if (known && granted !== undefined && used > granted) bar.classList.add('over');
  return element('td', {}, `${known ? write(used) : 'not known'}${granted === undefined ? '' : ` of ${write(granted)}`}`, bar);
}

function useOf(use) {
  if (!use) return element('p', {}, 'Reading…');
  if (use.error) return element('p', {}, `The use cannot be shown: ${harmless(use.error)}.`);
  if (!use.shares.length) return element('p', {}, harmless(use.message));
  const head = ['container', 'card', 'compute used', 'memory used'];
  return element('div', {}, element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Use of the cards' },
    element('table', { class: 'use-table' },
      element('thead', {}, element('tr', {}, head.map((text) => element('th', { scope: 'col' }, text)))),
      element('tbody', {}, use.shares.map((share) => element('tr', {},
        element('th', { scope: 'row' }, element('bdi', {}, harmless(share.container))),
        element('td', {}, String(share.card), element('br'), element('bdi', { class: 'uuid' }, harmless(share.uuid))),
        usedCell(share.core, (percent) => `${tenth(percent)} %`), usedCell(share.memoryMiB, memory)))))),
  element('p', { class: 'caption' }, `From Prometheus, at ${clock(use.at)}.`));
}

const podLines = ({ namespace, name }) => [`kubectl mgpu explain ${name} -n ${namespace}`, `kubectl describe pod ${name} -n ${namespace}`];

function podBody(pod, node, held, explained, use) {
  const drift = held && held.drift ? `${harmless(held.drift)}: ${harmless(held.driftDetail)}` : pod.drift ? harmless(pod.drift) : '';
  const containers = held && !held.error ? held.containers.map((container) => element('li', {},
    element('bdi', {}, harmless(container.name)), ` (${container.kind}): `,
    container.cards.length ? `${container.cards.length === 1 ? 'card' : 'cards'} ${container.cards.join(', ')}` : 'its cards are not known')) : [];
  const cards = pod.holds.map((hold) => cardOf(node, hold.card)).filter(Boolean);
  return [element('ol', { class: 'steps' },
    step('Request', requestOf(explained)),
    step('Node', element('p', {}, link(nodeRoute(node.name), harmless(node.name)), pod.bound ? ', bound' : ', being bound'),
      facts(['priority', number(pod.priority)], ['holds', podFacts(pod)])),
    step('Cards', drift ? element('p', { class: 'trouble' }, drift) : null, containers.length ? element('ul', {}, containers) : null,
      cardTable(node, cards)),
    step('Use', useOf(use))), commands(...podLines(pod))];
}

function counted({ summary, reasons }) {
  return [element('p', {}, element('bdi', {}, harmless(summary))),
    reasons.length ? element('ul', { class: 'reasons' }, reasons.toSorted((a, b) => b.count - a.count).map(({ count, text }) =>
      element('li', {}, element('strong', {}, number(count)), ' ', element('bdi', {}, harmless(text))))) : ''];
}

function reasonList(message) {
  const { evicting, more, ...fitting } = reasonsOf(message);
  return element('div', {}, counted(fitting), more ? element('p', { class: 'caption' }, element('bdi', {}, harmless(more))) : null,
    evicting ? element('details', {}, element('summary', {}, 'Whether evicting other pods helps'), counted(evicting)) : null);
}

// All ways for the pod to fit, besides the sentence with the nearest ones.
function waysOf({ ways = [] }) {
  return ways.length ? element('details', {}, element('summary', {}, `${plural(ways.length, 'way')} to fit`),
    element('ul', {}, ways.map((way) => element('li', {}, element('bdi', {}, harmless(way)))))) : null;
}

function helpBlock(pod, explained) {
  const { why, help } = explained?.pending ?? helpOf(pod) ?? { why: explained?.error ?? 'Reading…', help: '' };
  return element('div', { class: 'help-block' }, element('p', { class: 'reason' }, element('bdi', {}, harmless(why))),
    help ? element('p', { class: 'help' }, element('bdi', {}, harmless(help))) : null, explained?.pending ? waysOf(explained.pending) : null);
}

function explanation(explained) {
  if (!explained) return element('p', {}, 'Reading…');
  if (explained.error) return element('p', {}, harmless(explained.error));
  const nearest = explained.nodes.slice(0, kNodesShown);
  return element('div', {},
    explained.message && !explained.pending ? element('p', {}, harmless(explained.message)) : null,
    element('p', {}, `${plural(explained.nodesFitting, 'node')} would take it now, by its cards.`),
    explained.reasons.length ? element('ul', { class: 'reasons' }, explained.reasons.map(({ reason, nodes, evictionCanHelp }) =>
      element('li', {}, element('strong', {}, number(nodes)), ` ${harmless(reason)}${evictionCanHelp ? ' (evictions can help)' : ''}`))) : null,
    nearest.length ? element('details', {}, element('summary', {}, `Cards of ${plural(nearest.length, 'node')}`),
      element('ul', {}, nearest.map((node) => element('li', {}, link(nodeRoute(node.name), harmless(node.name)),
        node.fits ? ' fits' : `: ${harmless(node.reason.replace(/^node\(s\) /, ''))}`,
        element('ul', {}, node.cards.map((card) => element('li', {}, `card ${card.index}${card.fits ? ' fits' : ''}: ` +
          `compute ${number(card.core.free)} of ${number(card.core.asked)} %, memory ${memory(card.memoryMiB.free)} of ` +
          `${memory(card.memoryMiB.asked)}${card.why ? `, ${harmless(card.why)}` : ''}`))))))) : null);
}

function waitingBody(pod, explained) {
  return [element('ol', { class: 'steps' },
    step('What would help', helpBlock(pod, explained)),
    step('Request', element('ul', {}, pod.containers.map((container) => element('li', {}, element('bdi', {}, harmless(container.name)), `: ${requestText([container])}`))),
      facts(['pending for', waitedText(pod)], ['priority', number(pod.priority)], ['nominated node', harmless(pod.nominated)])),
    step('What kube-scheduler says', pod.message ? reasonList(pod.message) : element('p', {}, 'It has not tried the pod yet.'),
      Number.isFinite(pod.since) ? element('p', { class: 'caption' }, `${harmless(pod.reason)} since ${dayAndClock(pod.since)}`) : null),
    step('What the cards say now', explanation(explained))), commands(...podLines(pod))];
}

export class Detail {
  // `find` has node(name), pod(namespace, name) and waiting(namespace, name).
  constructor(find) {
    this.find = find;
    this.dialog = byId('detail');
    this.route = null;
    this.answers = {};
    this.asked = 0;
    this.timer = 0;
    byId('detail-close').addEventListener('click', () => this.leave());
    this.dialog.addEventListener('cancel', (event) => { event.preventDefault(); this.leave(); });
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.leave(); });
  }

  leave() { location.hash = ''; }

  // Of the address after "#".
  go(hash) {
    const [kind, ...names] = hash.replace(/^#\/?/, '').split('/').map((part) => {
      try { return decodeURIComponent(part); } catch { return part; }
    });
    const valid = (kind === 'node' && names.length === 1) || (kind === 'pod' && names.length === 2);
    this.route = valid ? { kind, names } : null;
    this.answers = {};
    clearTimeout(this.timer);
    if (!this.route) {
      if (this.dialog.open) this.dialog.close();
      return;
    }
    this.asked += 1;
    if (kind === 'pod') this.askPod();
    else this.take('node', '../inspect/node', { name: names[0] });
    this.draw();
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
  }

  // An answer for another route than that of now is dropped.
  async take(key, path, parameters) {
    const turn = this.asked;
    let answer;
    try { answer = await read(path, parameters); } catch (error) { answer = { error: error.message }; }
    if (turn !== this.asked || !this.route) return;
    this.answers[key] = answer;
    this.draw();
  }

  askPod() {
    const turn = this.asked;
    const [namespace, name] = this.route.names;
    this.take('held', '../inspect/pod', { namespace, name });
    this.take('explained', '../inspect/explain', { namespace, name, limit: kNodesShown });
    const takeUse = async () => {
      if (document.visibilityState === 'visible') await this.take('use', 'use', { namespace, pod: name });
      if (turn === this.asked && this.route?.kind === 'pod') this.timer = setTimeout(takeUse, kUseInterval);
    };
    takeUse();
  }

  // Something has changed. The focus stays where it is, unless it was on what is drawn again.
  draw() {
    if (!this.route) return;
    const { title, body } = this.content();
    byId('detail-title').replaceChildren(element('bdi', {}, title));
    const target = byId('detail-body');
    const focused = target.contains(document.activeElement) ? document.activeElement : null;
    const held = ['href', 'data-copy'].find((name) => focused?.hasAttribute(name));
    const value = held ? focused.getAttribute(held) : '';
    const open = [...target.querySelectorAll('details')].map((one) => one.open);
    target.replaceChildren(...body.filter(Boolean));
    [...target.querySelectorAll('details')].forEach((one, i) => { one.open = open[i] ?? false; });
    if (held) target.querySelector(`[${held}="${CSS.escape(value)}"]`)?.focus();
  }

  content() {
    const { kind, names } = this.route;
    if (kind === 'node') {
      const node = this.find.node(names[0]);
      const body = node ? nodeBody(node, this.answers.node) : [element('p', {}, 'The extender does not know this node.')];
      return { title: `Node ${harmless(names[0])}`, body };
    }
    const title = `Pod ${harmless(names[0])}/${harmless(names[1])}`;
    const pod = this.find.pod(...names);
    const { held, explained, use } = this.answers;
    if (pod) return { title, body: podBody(pod, this.find.node(pod.node), held, explained, use) };
    const waiting = this.find.waiting(...names);
    if (waiting) return { title, body: waitingBody(waiting, explained) };
    return { title, body: [element('p', {}, 'This pod neither holds cards nor waits for them.'), explanation(explained)] };
  }
}
