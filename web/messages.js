// How one message looks: its text, its figures or error, and what can be done with it.
import {button, copyFrom, element, fit, isSendKey} from '/web/dom.js';
import {render} from '/web/markdown.js';

// What is kept of an answer's figures.
export function statsOf(result, seconds) {
  const {usage, timings, finish} = result;
  if (!usage) return null;
  return {
    finish,
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    made: usage.completion_tokens,
    rate: timings?.generated_tokens_per_second ?? (seconds > 0 ? usage.completion_tokens / seconds : 0),
    firstMs: timings?.time_to_first_token_ms,
  };
}

const count = (n) => n.toLocaleString('en');
const tokens = (n) => `${count(n)} ${n === 1 ? 'token' : 'tokens'}`;
const rateText = (rate) => `${rate >= 100 ? Math.round(rate) : rate.toFixed(1)} tokens/s`;

function statsText(stats) {
  const parts = [tokens(stats.made), rateText(stats.rate)];
  if (stats.finish === 'length') parts.push('cut at its limit');
  if (stats.finish === 'stopped') parts.push('stopped');
  return parts.join(' · ');
}

function statsTitle(stats) {
  const prompt = `Prompt: ${tokens(stats.prompt)}, ${count(stats.cached)} of them already computed`;
  return stats.firstMs === undefined ? prompt : `${prompt}; first token after ${Math.round(stats.firstMs)} ms`;
}

// One <article>. handlers: edit(text), again(), openKey(), startAnew().
export class MessageView {
  constructor(message, handlers) {
    this.message = message;
    this.handlers = handlers;
    const who = message.role === 'user' ? 'You' : message.model || 'Model';
    this.element = element('article', `message ${message.role}`);
    this.element.setAttribute('aria-label', who);
    this.body = element('div', 'body');
    this.error = element('div', 'error');
    this.error.hidden = true;
    this.figures = element('span', 'figures');
    this.actions = element('span', 'actions');
    const foot = element('div', 'foot');
    foot.append(this.figures, this.actions);
    if (message.role === 'assistant') this.element.append(element('div', 'who', who));
    this.element.append(this.body, this.error, foot);
    this.addActions();
    this.show();
  }

  addActions() {
    const {message, handlers} = this;
    const quiet = (icon) => ({icon, className: 'quiet'});
    const copy = button('Copy', () => copyFrom(copy, message.content), quiet('copy'));
    this.actions.append(copy);
    if (message.role === 'user') this.actions.append(button('Edit', () => this.openEditor(), quiet('edit')));
    else this.actions.append(button('Regenerate', () => handlers.again(), quiet('again')));
  }

  show() {
    const {message} = this;
    if (message.role === 'user') this.body.textContent = message.content;
    else render(this.body, message.content);
    this.figures.textContent = message.stats ? statsText(message.stats) : '';
    this.figures.title = message.stats ? statsTitle(message.stats) : '';
    if (message.error) this.showError();
  }

  // While the answer comes: null shows that nothing has come yet.
  showProgress(made, seconds) {
    this.element.classList.add('waiting');
    this.figures.textContent = made === null ? 'reading the prompt' : `${tokens(made)} · ${rateText(made / Math.max(seconds, 0.001))}`;
  }

  showError() {
    const {message, handlers} = this;
    const line = element('p', '', message.error.text);
    const choices = element('div', 'choices');
    if (message.error.status === 401) choices.append(button('Enter the API key', () => handlers.openKey()));
    if (message.error.code === 'context_length_exceeded') choices.append(button('New conversation', () => handlers.startAnew()));
    choices.append(button('Try again', () => handlers.again()));
    this.error.replaceChildren(line, choices);
    this.error.hidden = false;
    this.element.classList.add('failed');
  }

  finish() {
    this.element.classList.remove('waiting');
    this.show();
  }

  openEditor() {
    if (this.element.querySelector('.editor')) return;
    const editor = element('form', 'editor');
    const text = element('textarea');
    text.setAttribute('aria-label', 'Edit the message');
    text.value = this.message.content;
    const send = element('button', 'main', 'Send again');
    const close = () => {
      editor.remove();
      this.element.classList.remove('editing');
      this.actions.querySelector('button:last-child').focus();
    };
    const choices = element('div', 'choices');
    choices.append(send, button('Cancel', close, {className: 'quiet'}));
    editor.append(text, choices);
    editor.addEventListener('submit', (event) => {
      event.preventDefault();
      if (text.value.trim()) this.handlers.edit(text.value);
    });
    editor.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      } else if (event.target === text && isSendKey(event)) {
        event.preventDefault();
        editor.requestSubmit();
      }
    });
    text.addEventListener('input', () => fit(text));
    this.element.classList.add('editing');
    this.element.prepend(editor);
    fit(text);
    text.focus();
  }
}
