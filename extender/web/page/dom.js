// Makes elements. Text is never parsed as markup: the page's Content-Security-Policy has Trusted
// Types without a policy, so that innerHTML and the like throw.

// `attributes` with the value false or null are left out; functions are event listeners.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === 'function') made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const kSvg = 'http://www.w3.org/2000/svg';

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

// Sets the text of an element if it is another one, so that screen readers hear changes only.
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}
