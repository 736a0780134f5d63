// A model's text as safe HTML: marked makes the HTML, DOMPurify lets through only what shows text.
import DOMPurify from '/web/purify.es.js';

const ALLOWED = {
  ALLOWED_TAGS: ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i',
    'li', 'ol', 'p', 'pre', 's', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['href', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'})[c]);

// HTML that a model writes is shown as the text it is: the characters are escaped before markdown is
// read, except inside code, where marked escapes them itself.
let configured = false;
function configure() {
  if (configured) return;
  configured = true;
  const asText = (token) => escapeHtml(typeof token === 'string' ? token : token.text ?? token.raw ?? '');
  window.marked.use({renderer: {html: asText}, gfm: true, breaks: true, mangle: false, headerIds: false});
}

export function render(element, text) {
  configure();
  element.innerHTML = DOMPurify.sanitize(window.marked.parse(text), ALLOWED);
  for (const link of element.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer nofollow';
  }
  for (const block of element.querySelectorAll('pre')) {
    const copy = document.createElement('button');
    copy.type = 'button';
    copy.className = 'copy';
    copy.textContent = 'Copy';
    copy.addEventListener('click', async () => {
      await navigator.clipboard.writeText(block.querySelector('code')?.textContent ?? '');
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
    });
    block.append(copy);
  }
}
