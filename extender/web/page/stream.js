// The events of the extender. The connection is made again for as long as the page is open.

const kRetryFirst = 500;
const kRetryMost = 5_000;
// Three times kWebHeartbeatInterval, after which the extender sends something.
const kSilenceMost = 15_000;
// A page in the background gives its place to others.
const kHiddenMost = 60_000;
const kEvents = ['hello', 'nodes', 'synced', 'waiting', 'history', 'status', 'beat'];

export class Stream {
  // `onEvent(name, data)`; `onState(state, sentence)` with "live", "lost" or "paused".
  constructor({ onEvent, onState }) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.epoch = '';
    this.version = 0;
    this.retry = kRetryFirst;
    this.source = null;
    this.greeted = false; // on this connection
    this.timers = { retry: 0, silence: 0, hidden: 0 };
    document.addEventListener('visibilitychange', () => this.onVisibility());
    // A page that the browser keeps for its history must not hold a connection.
    addEventListener('pagehide', () => this.close());
    addEventListener('pageshow', (event) => { if (event.persisted) this.open(); });
  }

  address() {
    const query = new URLSearchParams({ epoch: this.epoch, since: String(this.version) });
    return `events?${query}`;
  }

  open() {
    this.close();
    const source = new EventSource(this.address());
    this.source = source;
    this.greeted = false;
    this.watchSilence();
    for (const name of kEvents) {
      source.addEventListener(name, (event) => {
        if (source === this.source) this.take(name, JSON.parse(event.data));
      });
    }
    source.addEventListener('error', () => { if (source === this.source) this.lose(); });
  }

  close() {
    clearTimeout(this.timers.retry);
    clearTimeout(this.timers.silence);
    this.source?.close();
    this.source = null;
  }

  take(name, data) {
    this.watchSilence();
    this.retry = kRetryFirst;
    if (name === 'hello') {
      data.restarted = this.epoch !== '' && this.epoch !== data.epoch;
      if (this.epoch !== data.epoch) this.version = 0;
      this.epoch = data.epoch;
      this.greeted = true;
      this.onState('live', '');
    }
    if (name === 'nodes') this.version = data.version;
    this.onEvent(name, data);
  }

  watchSilence() {
    clearTimeout(this.timers.silence);
    this.timers.silence = setTimeout(() => this.lose(), kSilenceMost);
  }

  async lose() {
    this.close();
    this.timers.retry = setTimeout(() => this.open(), this.retry);
    this.retry = Math.min(2 * this.retry, kRetryMost);
    this.onState('lost', '');
    const sentence = this.greeted ? '' : await this.refusal();
    if (sentence && !this.source) this.onState('lost', sentence);
  }

  // An EventSource does not say why it was refused.
  async refusal() {
    try {
      const answer = await fetch('../readyz', { cache: 'no-store', signal: AbortSignal.timeout(2_000) });
      return answer.status === 200 ? 'It answers, but sends no events: too many pages may be open.' : '';
    } catch {
      return '';
    }
  }

  onVisibility() {
    clearTimeout(this.timers.hidden);
    if (document.visibilityState === 'hidden') {
      this.timers.hidden = setTimeout(() => { this.close(); this.onState('paused', ''); }, kHiddenMost);
    } else if (!this.source) {
      this.open();
    }
  }
}
