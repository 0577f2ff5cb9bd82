// What the extender says about pending pods (/inspect/explain): one request at a time, about pods that can be seen.

const kKeptMost = 1_000;
// The answer changes with the cluster. It is asked again after this time.
const kLife = 30_000;
const kPause = 200;

const kept = new Map(); // "namespace/name" -> { at, message, why, help, fits }
const wanted = new Map(); // "namespace/name" -> pod
let asking = false;
let onAnswer = () => {};

const keyOf = (pod) => `${pod.namespace}/${pod.name}`;

export function onHelp(call) { onAnswer = call; }

// { why, help, fits }, or null while it is not known. A pod that is looked at is asked about.
export function helpOf(pod) {
  const known = kept.get(keyOf(pod));
  if (!known || known.message !== pod.message || Date.now() - known.at > kLife) {
    wanted.set(keyOf(pod), pod);
    if (!asking) ask();
  }
  return known?.why ? known : null;
}

async function ask() {
  asking = true;
  while (wanted.size) {
    const [key, pod] = wanted.entries().next().value;
    wanted.delete(key);
    const answer = await read(pod);
    if (kept.size >= kKeptMost) kept.delete(kept.keys().next().value);
    const before = kept.get(key);
    kept.set(key, { ...(answer ?? before), at: Date.now(), message: pod.message });
    if (answer && (before?.why !== answer.why || before?.help !== answer.help)) onAnswer();
    await new Promise((done) => setTimeout(done, kPause));
  }
  asking = false;
}

async function read({ namespace, name }) {
  try {
    const answer = await fetch(`../inspect/explain?${new URLSearchParams({ namespace, name, limit: 1 })}`, { cache: 'no-store' });
    const { pending, nodesFitting } = answer.ok ? await answer.json() : {};
    return pending ? { ...pending, fits: nodesFitting > 0 } : null;
  } catch {
    return null;
  }
}
