// The chat page: state in store.js, the server in api.js, text to HTML in markdown.js.
import {ApiError, listModels, streamChat} from '/web/api.js';
import {render} from '/web/markdown.js';
import {Conversations, loadSettings, saveSettings} from '/web/store.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = ['temperature', 'top_p', 'top_k', 'max_tokens', 'seed'];

const conversations = new Conversations();
const settings = loadSettings();
let running = null;  // the AbortController of the answer being generated

// ---- Messages -----------------------------------------------------------------------------------

function figuresText(result, seconds) {
  if (!result.usage) return '';
  const made = result.usage.completion_tokens;
  const rate = result.timings?.generated_tokens_per_second ?? (seconds > 0 ? made / seconds : 0);
  const limit = result.finish === 'length' ? ' · cut at its limit' : '';
  return `${result.usage.prompt_tokens} + ${made} tokens · ${rate.toFixed(1)} tokens/s${limit}`;
}

function button(text, onClick) {
  const b = document.createElement('button');
  b.type = 'button';
  b.className = 'quiet';
  b.textContent = text;
  b.addEventListener('click', onClick);
  return b;
}

function showBody(element, message) {
  const body = element.querySelector('.body');
  if (message.role === 'user') body.textContent = message.content;
  else render(body, message.content);
  if (message.error) {
    const error = document.createElement('p');
    error.className = 'error';
    error.textContent = message.error;
    body.append(error);
  }
  element.querySelector('.figures').textContent = message.figures ?? '';
}

function openEditor(element, index) {
  const editor = element.querySelector('.editor');
  const text = editor.querySelector('textarea');
  text.value = conversations.current.messages[index].content;
  element.querySelector('.body').hidden = true;
  editor.hidden = false;
  text.focus();
  const close = () => {
    editor.hidden = true;
    element.querySelector('.body').hidden = false;
  };
  editor.querySelector('.cancel').onclick = close;
  editor.onkeydown = (event) => {
    if (event.key === 'Escape') close();
  };
  editor.onsubmit = (event) => {
    event.preventDefault();
    if (!text.value.trim() || running) return;
    conversations.current.messages.length = index;
    ask(text.value);
  };
}

function messageElement(message, index) {
  const element = $('message-template').content.cloneNode(true).querySelector('article');
  element.classList.add(message.role);
  element.querySelector('.who').textContent = message.role === 'user' ? 'You' : message.model ?? 'Model';
  const actions = element.querySelector('.actions');
  if (message.role === 'user') {
    actions.append(button('Edit', () => { if (!running) openEditor(element, index); }));
  } else {
    actions.append(button('Copy', () => navigator.clipboard.writeText(message.content)));
    actions.append(button('Regenerate', () => {
      if (running) return;
      conversations.current.messages.length = index;
      answer();
    }));
  }
  showBody(element, message);
  return element;
}

function showConversation() {
  const log = $('log');
  log.replaceChildren();
  if (conversations.current.messages.length === 0) {
    const welcome = document.createElement('div');
    welcome.className = 'welcome';
    const title = document.createElement('h1');
    title.textContent = 'strata';
    const line = document.createElement('p');
    line.textContent = 'Ask the model something. Conversations stay in this browser.';
    welcome.append(title, line);
    log.append(welcome);
  }
  conversations.current.messages.forEach((m, i) => log.append(messageElement(m, i)));
  log.scrollTop = log.scrollHeight;
}

function showList() {
  $('conversations').replaceChildren(...conversations.all.filter((c) => c.messages.length > 0).map((c) => {
    const item = document.createElement('li');
    item.classList.toggle('current', c.id === conversations.current.id);
    const open = button(c.title || 'Untitled', () => {
      stop();
      conversations.open(c.id);
      document.body.classList.remove('sidebar-open');
      showAll();
    });
    open.className = 'open';
    const remove = button('✕', () => {
      if (c.id === conversations.current.id) stop();
      conversations.remove(c.id);
      showAll();
    });
    remove.className = 'remove';
    remove.setAttribute('aria-label', `Delete ${c.title}`);
    item.append(open, remove);
    return item;
  }));
}

function showAll() {
  showConversation();
  showList();
}

// ---- Asking -------------------------------------------------------------------------------------

function setRunning(controller) {
  running = controller;
  $('send').hidden = controller !== null;
  $('stop').hidden = controller === null;
}

function stop() {
  running?.abort();
}

function requestBody(messages) {
  const body = {model: $('model').value, messages: []};
  if (settings.system?.trim()) body.messages.push({role: 'system', content: settings.system});
  for (const m of messages) if (m.content || m.role === 'user') body.messages.push({role: m.role, content: m.content});
  for (const name of NUMBERS) if (settings[name] !== undefined && settings[name] !== '') body[name] = Number(settings[name]);
  return body;
}

// Generates the answer to the conversation as it stands and shows it while it comes.
async function answer() {
  const conversation = conversations.current;
  const body = requestBody(conversation.messages);
  const message = {role: 'assistant', content: '', model: body.model};
  conversation.messages.push(message);
  showAll();
  const element = $('log').lastElementChild;
  element.classList.add('waiting');
  const log = $('log');
  let drawn = false;
  const draw = () => {
    drawn = false;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    showBody(element, message);
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  const controller = new AbortController();
  setRunning(controller);
  const begun = performance.now();
  try {
    const result = await streamChat(body, $('api-key').value, controller.signal, (text) => {
      message.content += text;
      if (!drawn) requestAnimationFrame(draw);
      drawn = true;
    });
    message.figures = figuresText(result, (performance.now() - begun) / 1000);
  } catch (error) {
    if (error.name === 'AbortError') message.figures = 'stopped';
    else message.error = error instanceof ApiError ? error.message : 'the server cannot be reached';
  }
  element.classList.remove('waiting');
  setRunning(null);
  draw();
  if (!conversations.save()) $('state').textContent = 'this browser keeps nothing: the conversation will be lost';
  showList();
  $('composer-text').focus();
}

function ask(text) {
  conversations.current.messages.push({role: 'user', content: text});
  conversations.save();
  answer();
}

function submit() {
  const box = $('composer-text');
  if (running || !box.value.trim()) return;
  const text = box.value;
  box.value = '';
  fit(box);
  ask(text);
}

// ---- Settings and start -------------------------------------------------------------------------

function fit(box) {
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight + 2}px`;
}

function showTheme() {
  const theme = settings.theme ?? 'system';
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $('theme').textContent = `Theme: ${theme}`;
}

async function showModels() {
  try {
    const models = await listModels($('api-key').value);
    $('model').replaceChildren(...models.map((m) => new Option(m.id, m.id)));
    if (models.some((m) => m.id === settings.model)) $('model').value = settings.model;
    const chosen = models.find((m) => m.id === $('model').value);
    $('state').textContent = chosen ? `context of ${chosen.context_length.toLocaleString()} tokens` : '';
  } catch (error) {
    $('state').textContent = error.status === 401 ? 'this server wants an API key (Settings)' : error.message;
    if (error.status === 503) setTimeout(showModels, 1000);
  }
}

function newConversation() {
  stop();
  conversations.create();
  document.body.classList.remove('sidebar-open');
  showAll();
  $('composer-text').focus();
}

function connect() {
  for (const id of ['system', ...NUMBERS]) {
    $(id).value = settings[id] ?? '';
    $(id).addEventListener('change', () => {
      settings[id] = $(id).value;
      saveSettings(settings);
    });
  }
  $('api-key').addEventListener('change', showModels);
  $('model').addEventListener('change', () => {
    settings.model = $('model').value;
    saveSettings(settings);
    showModels();
  });
  $('theme').addEventListener('click', () => {
    settings.theme = {system: 'dark', dark: 'light', light: 'system'}[settings.theme ?? 'system'];
    saveSettings(settings);
    showTheme();
  });
  $('open-settings').addEventListener('click', () => {
    const hidden = $('settings').toggleAttribute('hidden');
    $('open-settings').setAttribute('aria-expanded', String(!hidden));
  });
  $('open-sidebar').addEventListener('click', () => document.body.classList.add('sidebar-open'));
  $('close-sidebar').addEventListener('click', () => document.body.classList.remove('sidebar-open'));
  $('new-chat').addEventListener('click', newConversation);
  $('stop').addEventListener('click', stop);
  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  $('composer-text').addEventListener('input', (event) => fit(event.target));
  $('composer-text').addEventListener('keydown', (event) => {
    // While a character is being composed, Enter belongs to the input method.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      stop();
      document.body.classList.remove('sidebar-open');
    }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      newConversation();
    }
  });
}

connect();
showTheme();
showAll();
showModels();
