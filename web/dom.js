// Small helpers for the page's elements.

export const $ = (id) => document.getElementById(id);

export function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// One of the symbols at the top of index.html.
export function glyph(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  svg.classList.add('glyph');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

export function button(text, onClick, {icon, className = ''} = {}) {
  const b = element('button', className);
  b.type = 'button';
  if (icon) b.append(glyph(icon));
  b.append(text);
  b.addEventListener('click', onClick);
  return b;
}

export function iconButton(label, icon, onClick, className = 'icon') {
  const b = button('', onClick, {icon, className});
  b.setAttribute('aria-label', label);
  b.title = label;
  return b;
}

// The clipboard of a page that came over plain HTTP from another machine is reached the old way only.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = element('textarea', 'visually-hidden');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

// Copies and says so on the button for a moment.
export async function copyFrom(b, text) {
  const label = b.lastChild;
  const before = label.data;
  if (before === 'Copied') return;
  await copyText(text);
  label.data = 'Copied';
  setTimeout(() => { label.data = before; }, 1500);
}

// Grows a text box with its text, up to the limit the style sheet sets.
export function fit(box) {
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight + 2}px`;
}

// Where Enter belongs to a keyboard on the screen, it breaks the line.
export const onTouch = () => matchMedia('(hover: none) and (pointer: coarse)').matches;

// Enter as "send": not while a character is being composed, where it belongs to the input method.
export const isSendKey = (event) => event.key === 'Enter' && !event.shiftKey && !event.isComposing && !onTouch();

let toastTimer = 0;
export function toast(text, action, onAction) {
  const [line, b] = $('toast').children;
  const close = () => {
    line.textContent = '';
    b.hidden = true;
  };
  line.textContent = text;
  b.hidden = !action;
  b.textContent = action ?? '';
  b.onclick = () => {
    close();
    onAction();
  };
  clearTimeout(toastTimer);
  toastTimer = setTimeout(close, 8000);
}

// Tells a screen reader something; answers are told once, when they are complete.
export function announce(text) {
  $('announcer').textContent = text;
}
