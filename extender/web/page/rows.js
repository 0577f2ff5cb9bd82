// The rows of the three lists.
import { element } from './dom.js';
import { cardOf, isFree, isUsed } from './model.js';
import { duration, harmless, memory, number, percentText, plural } from './text.js';

export const kColors = 8; // .pod-0 to .pod-7

// Pods of a name have the same color on all nodes.
export function colorOf(pod) {
  let hash = 0;
  for (const character of `${pod.namespace}/${pod.name}`) hash = (31 * hash + character.codePointAt(0)) | 0;
  return Math.abs(hash) % kColors;
}

export const podName = (pod) => `${harmless(pod.namespace)}/${harmless(pod.name)}`;

function bar(kind, parts, capacity) {
  const made = element('span', { class: `bar ${kind}` });
  for (const { pod, amount } of parts) {
    const part = element('span', { class: `part pod-${colorOf(pod)}${pod.bound ? '' : ' assumed'}` });
    part.style.width = `${Math.min(100, (100 * amount) / Math.max(1, capacity))}%`;
    made.append(part);
  }
  return made;
}

export function cardState(card) {
  if (!card.healthy) return 'unhealthy';
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
  if (!card.healthy) made.classList.add('unhealthy');
  if (card.uncertain) made.classList.add('uncertain');
  return made;
}

const modelsOf = (node) => [...new Set(node.cards.map((card) => harmless(card.model) || 'unknown model'))].join(', ');

function troublesOf(node) {
  const { cardsUnhealthy, cardsUncertain, podsDrifting } = node.sums;
  return [node.problem ? harmless(node.problem) : '', cardsUnhealthy ? plural(cardsUnhealthy, 'unhealthy card') : '',
    cardsUncertain ? plural(cardsUncertain, 'blocked card') : '', podsDrifting ? plural(podsDrifting, 'pod') + ' with drift' : '']
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
    `${pod.drift ? `, drift ${harmless(pod.drift)}` : ''}`,
  draw(row, pod) {
    row.replaceChildren(
      element('span', { class: 'line' }, element('span', { class: `dot pod-${colorOf(pod)}` }),
        element('bdi', { class: 'name' }, podName(pod)),
        pod.drift ? element('bdi', { class: 'trouble' }, `drift: ${harmless(pod.drift)}`) : null),
      element('bdi', { class: 'facts' }, `${harmless(pod.node)} · ${podFacts(pod)}`));
  },
};

export function requestText(containers) {
  return containers.map(({ cards, core, memory: each }) =>
    `${plural(cards, 'card')} ${each < 0 ? 'whole' : `× ${number(core)} % and ${memory(each)}`}`).join(' + ') ||
    'the request cannot be read';
}

export const waitedText = (pod) => (Number.isFinite(pod.created) ? duration(Date.now() - pod.created) : 'an unknown time');

export const kWaitingRows = {
  name: 'Waiting pods',
  rowHeight: 84,
  rowHeightNarrow: 108,
  key: (pod) => `${pod.namespace}/${pod.name}`,
  label: (pod) => `${podName(pod)}, waits ${waitedText(pod)}, requests ${requestText(pod.containers)}. ${harmless(pod.message)}`,
  draw(row, pod) {
    row.replaceChildren(
      element('span', { class: 'line' }, element('bdi', { class: 'name' }, podName(pod)),
        element('span', { class: 'facts' }, `waits ${waitedText(pod)} · ${requestText(pod.containers)}`)),
      element('bdi', { class: 'reason' }, harmless(pod.message) || 'kube-scheduler has not tried it yet'));
  },
};

export { cardOf, isUsed };
