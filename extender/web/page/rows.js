// The rows of the three lists.
import { element } from './dom.js';
import { colorOf } from './colors.js';
import { helpOf } from './help.js';
import { isFree, isUnhealthy, reasonsOf } from './model.js';
import { duration, harmless, memory, number, percentText, plural } from './text.js';

export const podName = (pod) => `${harmless(pod.namespace)}/${harmless(pod.name)}`;

function bar(kind, parts, capacity) {
  const made = element('span', { class: `bar ${kind}` });
  for (const { pod, amount } of parts) {
    const part = element('span', { class: `part space-${colorOf(pod.namespace)}${pod.bound ? '' : ' assumed'}` });
    part.style.width = `${Math.min(100, (100 * amount) / Math.max(1, capacity))}%`;
    made.append(part);
  }
  return made;
}

// "XID 79 for 5 min", of "XID 79 since 2026-01-02T03:04:05Z". Empty where no reason is known.
export function healthText(card, since = true) {
  const [, what, from] = /^([^]*?)(?: since (\S+Z))?$/.exec(card.health);
  const at = Date.parse(from);
  return `${what === 'Unhealthy' ? '' : harmless(what)}${since && Number.isFinite(at) ? ` for ${duration(Date.now() - at)}` : ''}`.trim();
}

export function cardState(card) {
  if (!card.healthy) return card.reserved ? 'kept from pods by the profile of the node' : ['unhealthy', healthText(card)].filter(Boolean).join(': ');
  if (card.uncertain) return 'blocked by a pod whose cards are not known';
  return card.cordoned ? 'cordoned' : '';
}

export function cardText(card) {
  const state = cardState(card);
  return `card ${card.index}, ${harmless(card.model) || 'unknown model'}: ` +
    `compute ${number(card.core.used)} of ${number(card.core.capacity)} %, ` +
    `memory ${memory(card.memory.used)} of ${memory(card.memory.capacity)}${state ? `, ${state}` : ''}`;
}

// Compute above memory, filled by the pods that hold them.
export function cardBars(card) {
  const made = element('span', { class: 'card', title: cardText(card) },
    bar('core', card.holds.map((hold) => ({ pod: hold.pod, amount: hold.core })), card.core.capacity),
    bar('memory', card.holds.map((hold) => ({ pod: hold.pod, amount: hold.memory })), card.memory.capacity));
  if (isUnhealthy(card)) made.classList.add('unhealthy');
  else if (card.uncertain || card.cordoned) made.classList.add('uncertain');
  return made;
}

const modelsOf = (node) => [...new Set(node.cards.map((card) => harmless(card.model) || 'unknown model'))].join(', ');

function troublesOf(node) {
  const { cardsUnhealthy, cardsUncertain, cardsCordoned, podsDrifting } = node.sums;
  return [node.problem ? harmless(node.problem) : '', harmless(node.kept), ...node.cards.filter(isUnhealthy).slice(0, 2).map((card) => `card ${card.index} ${cardState(card)}`),
    cardsUnhealthy > 2 ? `${plural(cardsUnhealthy - 2, 'more unhealthy card')}` : '',
    cardsCordoned ? plural(cardsCordoned, 'cordoned card') : '', cardsUncertain ? plural(cardsUncertain, 'blocked card') : '', podsDrifting ? plural(podsDrifting, 'pod') + ' with drift' : '']
    .filter(Boolean).join(', ');
}

function nodeFacts(node) {
  const { sums } = node;
  return `${plural(node.cards.length, 'card')}${node.cards.length ? ` ${modelsOf(node)}` : ''} · ` +
    `${percentText(sums.coreUsed, sums.core)} compute · ${percentText(sums.memoryUsed, sums.memory)} memory · ` +
    `${plural(node.pods.length, 'pod')} · ${plural(node.cards.filter(isFree).length, 'free card')}`;
}

export const kNodeRows = {
  name: 'Nodes',
  rowHeight: 76,
  rowHeightNarrow: 92,
  key: (node) => node.name,
  label: (node) => [harmless(node.name), nodeFacts(node).replaceAll(' · ', ', '), troublesOf(node)].filter(Boolean).join(', '),
  draw(row, node) {
    const trouble = troublesOf(node);
    const cards = element('span', { class: 'cards' }, node.cards.map(cardBars));
    cards.style.setProperty('--cards', String(Math.max(8, node.cards.length)));
    row.replaceChildren(
      element('span', { class: 'line' }, element('bdi', { class: 'name' }, harmless(node.name)),
        trouble ? element('bdi', { class: 'trouble' }, trouble) : null),
      element('bdi', { class: 'facts' }, nodeFacts(node)), cards);
  },
};

const sumOf = (pod, what) => pod.holds.reduce((sum, hold) => sum + hold[what], 0);

export function podFacts(pod) {
  const cards = pod.holds.length;
  return `${plural(cards, 'card')} · ${number(sumOf(pod, 'core'))} % compute · ${memory(sumOf(pod, 'memory'))} memory` +
    `${pod.bound ? '' : ' · being bound'}`;
}

export const kPodRows = {
  name: 'Pods',
  rowHeight: 52,
  rowHeightNarrow: 68,
  key: (pod) => `${pod.namespace}/${pod.name} ${pod.node}`,
  label: (pod) => `${podName(pod)} on ${harmless(pod.node)}, ${podFacts(pod).replaceAll(' · ', ', ')}` +
    `${pod.idle ? ', idle for an hour' : ''}${pod.drift ? `, drift ${harmless(pod.drift)}` : ''}`,
  draw(row, pod) {
    row.replaceChildren(
      element('span', { class: 'line' }, element('span', { class: `dot space-${colorOf(pod.namespace)}` }),
        element('bdi', { class: 'name' }, podName(pod)),
        pod.idle ? element('span', { class: 'trouble' }, 'idle for an hour') : null,
        pod.drift ? element('bdi', { class: 'trouble' }, `drift: ${harmless(pod.drift)}`) : null),
      element('bdi', { class: 'facts' }, `${harmless(pod.node)} · ${podFacts(pod)}`));
  },
};

export function requestText(containers) {
  return containers.map(({ cards, core, memory: each }) =>
    (each < 0 ? plural(cards, 'whole card') : `${cards === 1 ? '' : `${number(cards)} × `}${number(core)} % and ${memory(each)}`)).join(' + ');
}

export const waitedText = (pod) => (Number.isFinite(pod.created) ? duration(Date.now() - pod.created) : 'an unknown time');

// Why the pod is pending: what the extender says. Where the cards are free, kube-scheduler knows more; its list begins
// with what most nodes say.
function whyOf(pod) {
  const help = helpOf(pod);
  if (help && !help.fits) return help;
  const { summary, reasons } = reasonsOf(pod.message);
  const most = reasons.toSorted((a, b) => b.count - a.count).map(({ count, text }) => `${count} ${text}`);
  return { why: most.length ? most.join(', ') : summary || 'kube-scheduler has not tried it yet', help: help?.why ?? '' };
}

// In the list, and in the first lines of the page.
export function drawPending(row, pod, name) {
  const { why, help } = whyOf(pod);
  row.replaceChildren(
    element('span', { class: 'line' }, element('span', { class: `dot space-${colorOf(pod.namespace)}` }), name,
      element('span', { class: 'facts' }, [waitedText(pod), requestText(pod.containers)].filter(Boolean).join(' · '))),
    element('bdi', { class: 'reason' }, harmless(why)),
    help ? element('bdi', { class: 'help' }, harmless(help)) : '');
}

export const kWaitingRows = {
  name: 'Pending pods',
  rowHeight: 116,
  rowHeightNarrow: 160,
  key: (pod) => `${pod.namespace}/${pod.name}`,
  label: (pod) => {
    const { why, help } = whyOf(pod);
    return `${podName(pod)}, pending for ${waitedText(pod)}, requests ${requestText(pod.containers) || 'something invalid'}. ${harmless(why)}. ${harmless(help)}`.trim();
  },
  draw: (row, pod) => drawPending(row, pod, element('bdi', { class: 'name' }, podName(pod))),
};
