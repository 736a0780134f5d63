// A model's text as safe HTML: marked makes the HTML, DOMPurify lets through only what shows text, and
// the server's content security policy stands behind both.
import DOMPurify from '/web/purify.es.js';
import {button, copyFrom, element} from '/web/dom.js';
import {highlight} from '/web/highlight.js';

const ALLOWED = {
  ALLOWED_TAGS: ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i',
    'li', 'ol', 'p', 'pre', 's', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['href', 'start', 'align', 'class'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  // DOMPurify holds every other attribute's value against the pattern for addresses.
  ADD_URI_SAFE_ATTR: ['start', 'align', 'class'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'})[c]);

// HTML that a model writes is shown as the text it is; a picture becomes a link, so nothing is loaded.
let configured = false;
function configure() {
  if (configured) return;
  configured = true;
  window.marked.use({
    renderer: {
      html: escapeHtml,
      image: (address, title, text) => `<a href="${escapeHtml(address ?? '')}">${escapeHtml(text || address || '')}</a>`,
      checkbox: (checked) => (checked ? '☑ ' : '☐ '),
    },
    gfm: true,
    breaks: true,
    mangle: false,
    headerIds: false,
  });
}

function finishLinks(root) {
  for (const link of root.querySelectorAll('a')) {
    if (link.hasAttribute('href')) {
      link.target = '_blank';
      link.rel = 'noopener noreferrer nofollow';
      link.title = link.href;
    } else {
      link.replaceWith(...link.childNodes);  // an address that is not let through leaves plain text
    }
  }
}

// A block of code gets a bar with its language and a button; its lines scroll sideways.
function finishCode(root) {
  for (const pre of root.querySelectorAll('pre')) {
    const code = pre.querySelector('code');
    if (!code) continue;
    const language = /^language-([\w+#-]+)/.exec(code.className)?.[1]?.toLowerCase() ?? '';
    const bar = element('div', 'code-bar');
    bar.append(element('span', '', language || 'text'));
    const copy = button('Copy', () => copyFrom(copy, code.textContent), {icon: 'copy', className: 'quiet'});
    copy.setAttribute('aria-label', 'Copy this code');
    bar.append(copy);
    const frame = element('div', 'code');
    frame.dir = 'ltr';
    pre.replaceWith(frame);
    pre.tabIndex = 0;
    frame.append(bar, pre);
    highlight(code, language);
  }
}

function finishTables(root) {
  for (const table of root.querySelectorAll('table')) {
    const frame = element('div', 'table');
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
}

function blockElement(token) {
  const block = element('div', 'block');
  block.dir = 'auto';
  if (token.type === 'html') {
    block.append(element('p', 'raw', token.raw.replace(/\n+$/, '')));
    return block;
  }
  block.append(DOMPurify.sanitize(window.marked.parser([token]), ALLOWED));
  finishCode(block);
  for (const e of block.querySelectorAll('[class^="language-"]')) e.removeAttribute('class');
  finishLinks(block);
  finishTables(block);
  return block;
}

const drawn = new WeakMap();  // element -> the source text of each block it shows

// Shows `text` in `target`. Only the blocks (paragraphs, lists, ...) that changed since the last call
// are made again: while an answer grows that is the last one, and a selection in the others survives.
export function render(target, text) {
  configure();
  const tokens = window.marked.lexer(text).filter((token) => token.type !== 'space' && token.type !== 'def');
  const before = drawn.get(target) ?? [];
  let same = 0;
  while (same < tokens.length && same < before.length && before[same] === tokens[same].raw) ++same;
  while (target.children.length > same) target.lastElementChild.remove();
  for (const token of tokens.slice(same)) target.append(blockElement(token));
  drawn.set(target, tokens.map((token) => token.raw));
}
