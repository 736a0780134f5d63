// The chat page: state in store.js, the server in api.js, a message's looks in messages.js.
import {ApiError, listModels, streamChat} from '/web/api.js';
import {$, announce, button, element, fit, iconButton, isSendKey, onTouch, toast} from '/web/dom.js';
import {connectEngine, showEngine} from '/web/engine.js';
import {MessageView, statsOf} from '/web/messages.js';
import {apiKey, connectSettings, openSettings, samplingFields, setSetting, settings, systemPrompt} from '/web/settings.js';
import {Conversations, contextOf} from '/web/store.js';

const STARTERS = [
  'Explain why the sky is blue to a ten-year-old.',
  'Write a Python function that reverses a string.',
  'Compare tea and coffee in a short table.',
  'Write a four-line poem about rain.',
];
const FIND_FROM = 9;          // this many conversations bring the search box
const NEAR_END_PX = 60;
const SPOKEN_LENGTH = 600;    // what a screen reader is told of an answer by itself

const conversations = new Conversations();
let models = [];         // of the server: [{id, context_length}]
let running = null;     // the AbortController of the answer that is being generated
let following = true;   // whether the view stays at the newest text

// ---- The conversation ---------------------------------------------------------------------------

function scrollToEnd() {
  $('log').scrollTop = $('log').scrollHeight;
}

function handlersOf(index) {
  const cut = () => { conversations.current.messages.length = index; };
  return {
    edit: (text) => {
      if (running) return;
      cut();
      ask(text);
    },
    again: () => {
      if (running) return;
      cut();
      answer();
    },
    openKey: () => openSettings('api-key'),
    startAnew: newConversation,
  };
}

function welcome() {
  const box = element('div', 'welcome');
  const mark = element('img');
  mark.src = '/web/icon.svg';
  mark.alt = '';
  const starters = element('div', 'starters');
  for (const text of STARTERS) starters.append(button(text, () => { if (!running) ask(text); }));
  box.append(mark, element('h1', '', 'What would you like to know?'), starters);
  return box;
}

function showConversation() {
  const {messages} = conversations.current;
  const views = messages.map((m, i) => new MessageView(m, handlersOf(i)));
  $('column').replaceChildren(...(views.length > 0 ? views.map((v) => v.element) : [welcome()]));
  following = true;
  scrollToEnd();
  showContext();
  return views;
}

// How much of the model's context the conversation fills.
function showContext() {
  const model = models.find((m) => m.id === $('model').value);
  const stats = conversations.current.messages.map((m) => m.stats).filter(Boolean).pop();
  const state = $('state');
  if (!model?.context_length) {
    state.replaceChildren();
    return;
  }
  const whole = model.context_length.toLocaleString('en');
  const used = stats ? (stats.prompt + stats.made).toLocaleString('en') : '0';
  state.replaceChildren(element('span', 'word', 'context '), `${used} / ${whole}`);
  state.title = `The conversation so far takes ${used} of the model's context of ${whole} tokens.`;
}

// ---- The list of conversations --------------------------------------------------------------------

function listItem(conversation) {
  const item = element('li');
  const current = conversation === conversations.current;
  item.classList.toggle('current', current);
  const open = button(conversation.title || 'Untitled', () => {
    stop();
    conversations.open(conversation.id);
    closeSidebar();
    showAll();
    focusComposer();
  }, {className: 'open'});
  open.title = conversation.title;
  open.dir = 'auto';
  if (current) open.setAttribute('aria-current', 'true');
  const remove = iconButton(`Delete: ${conversation.title}`, 'trash', () => {
    if (current) stop();
    conversations.remove(conversation);
    showAll();
    toast('Conversation deleted.', 'Undo', () => {
      stop();
      if (!conversations.restore(conversation)) tellNotKept();
      showAll();
    });
    ($('conversations').querySelector('.current .open') ?? $('new-chat')).focus();
  }, 'icon remove');
  item.append(open, remove);
  return item;
}

function showList() {
  const all = conversations.newestFirst();
  $('find').hidden = all.length < FIND_FROM;
  const wanted = $('find').hidden ? '' : $('find').value.trim().toLowerCase();
  const holds = (c) => c.title.toLowerCase().includes(wanted) || c.messages.some((m) => m.content.toLowerCase().includes(wanted));
  const found = wanted ? all.filter(holds) : all;
  $('conversations').replaceChildren(...found.map(listItem));
  if (wanted && found.length === 0) $('conversations').append(element('li', 'none', 'Nothing found.'));
}

function showAll() {
  showEngine(false);
  showConversation();
  showList();
}

// ---- Asking ---------------------------------------------------------------------------------------

function setRunning(controller) {
  const hadFocus = document.activeElement;
  running = controller;
  document.body.classList.toggle('answering', controller !== null);
  $('send').hidden = controller !== null;
  $('stop').hidden = controller === null;
  // The button that had the focus is gone, or nothing had it: writing goes on.
  if (hadFocus === document.body || hadFocus === $('send') || hadFocus === $('stop')) focusComposer();
}

function stop() {
  running?.abort();
}

function focusComposer() {
  if (!onTouch()) $('composer-text').focus();
}

function tellNotKept() {
  toast('This browser keeps nothing for this page: conversations are lost when it is closed.');
}

function requestBody(messages) {
  const system = systemPrompt() ? [{role: 'system', content: systemPrompt()}] : [];
  return {model: $('model').value, messages: [...system, ...contextOf(messages)], ...samplingFields()};
}

// Generates the answer to the conversation as it stands and shows it while it comes.
async function answer() {
  const conversation = conversations.current;
  const body = requestBody(conversation.messages);
  const message = {role: 'assistant', content: '', model: body.model};
  conversation.messages.push(message);
  const view = showConversation().pop();
  showList();
  const controller = new AbortController();
  setRunning(controller);
  announce('Answering');
  view.showProgress(null);

  let latest = {};        // the result so far
  let firstAt = 0;
  let drawAfter = 0;      // drawing may take a quarter of the time, however long the answer
  let waiting = false;
  const draw = () => {
    waiting = false;
    if (running !== controller) return;
    const begun = performance.now();
    if (begun < drawAfter) {
      schedule();
      return;
    }
    view.show();
    if (latest.usage) view.showProgress(latest.usage.completion_tokens, (begun - firstAt) / 1000);
    if (following) scrollToEnd();
    drawAfter = performance.now() + 3 * (performance.now() - begun);
  };
  const schedule = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };

  const secondsSinceFirst = () => (performance.now() - firstAt) / 1000;
  try {
    const result = await streamChat(body, apiKey(), controller.signal, (text, soFar) => {
      firstAt ||= performance.now();
      latest = soFar;
      message.content += text;
      schedule();
    });
    message.stats = statsOf(result, secondsSinceFirst());
    showNotice(null);
  } catch (error) {
    if (error.name === 'AbortError') {
      message.stats = statsOf({...latest, finish: 'stopped'}, secondsSinceFirst());
    } else {
      message.error = {text: error.message, status: error.status, code: error.code};
      if (!(error instanceof ApiError)) console.error(error);
      if (error.status === 0) showModels();
    }
  }
  const kept = conversations.save(conversation);
  setRunning(null);
  view.finish();
  if (following && conversation === conversations.current) scrollToEnd();
  announce(message.error ? message.error.text : view.body.textContent.slice(0, SPOKEN_LENGTH) || 'No answer');
  if (!kept) tellNotKept();
  showContext();
  showList();
}

function ask(text) {
  const conversation = conversations.current;
  conversation.messages.push({role: 'user', content: text});
  conversations.save(conversation);
  answer();
}

function submit() {
  const box = $('composer-text');
  if (running || !box.value.trim()) return;
  const text = box.value;
  box.value = '';
  boxChanged();
  ask(text);
}

function boxChanged() {
  fit($('composer-text'));
  $('send').disabled = !$('composer-text').value.trim();
}

function newConversation() {
  stop();
  $('settings').close();
  conversations.create();
  closeSidebar();
  showAll();
  $('composer-text').focus();
}

// ---- The server -------------------------------------------------------------------------------------

function showNotice(text, action, onAction) {
  const [line, b] = $('notice').children;
  $('notice').hidden = !text;
  line.textContent = text ?? '';
  b.textContent = action ?? '';
  b.hidden = !action;
  b.onclick = onAction;
}

let retryTimer = 0;
async function showModels() {
  clearTimeout(retryTimer);
  try {
    models = await listModels(apiKey());
    $('model').replaceChildren(...models.map((m) => new Option(m.id, m.id)));
    if (models.some((m) => m.id === settings.model)) $('model').value = settings.model;
    showNotice(null);
  } catch (error) {
    if (error.status === 401) {
      showNotice(error.message, 'Enter the key', () => openSettings('api-key'));
    } else {
      showNotice(error.status === 503 ? 'The server is loading its model.' : error.message, 'Try again', showModels);
      retryTimer = setTimeout(showModels, 2000);
    }
  }
  showContext();
}

// ---- Start --------------------------------------------------------------------------------------------

function openSidebar() {
  document.body.classList.add('sidebar-open');
  $('open-sidebar').setAttribute('aria-expanded', 'true');
  document.querySelector('main').inert = true;
  $('close-sidebar').focus();
}

function closeSidebar() {
  if (!document.body.classList.contains('sidebar-open')) return;
  document.body.classList.remove('sidebar-open');
  $('open-sidebar').setAttribute('aria-expanded', 'false');
  document.querySelector('main').inert = false;
  $('open-sidebar').focus();
}

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    newConversation();
  } else if (event.key === 'Escape' && !$('settings').open) {
    if (document.body.classList.contains('sidebar-open')) closeSidebar();
    else stop();
  }
}

function onComposerKey(event) {
  if (isSendKey(event)) {
    event.preventDefault();
    submit();
  } else if (event.key === 'ArrowUp' && !event.target.value && !running) {
    const mine = $('column').querySelectorAll('.message.user .actions button:last-child');
    if (mine.length === 0) return;
    event.preventDefault();
    mine[mine.length - 1].click();
  }
}

function connect() {
  connectSettings(showModels);
  connectEngine(() => $('model').value);
  $('model').addEventListener('change', () => {
    setSetting('model', $('model').value);
    showContext();
  });
  $('open-sidebar').addEventListener('click', openSidebar);
  $('close-sidebar').addEventListener('click', closeSidebar);
  $('shade').addEventListener('click', closeSidebar);
  matchMedia('(max-width: 46rem)').addEventListener('change', closeSidebar);
  $('new-chat').addEventListener('click', newConversation);
  $('find').addEventListener('input', showList);
  $('stop').addEventListener('click', stop);
  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  $('composer-text').addEventListener('input', boxChanged);
  $('composer-text').addEventListener('keydown', onComposerKey);
  $('to-end').addEventListener('click', scrollToEnd);
  $('log').addEventListener('scroll', () => {
    const log = $('log');
    following = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PX;
    $('to-end').hidden = following;
  }, {passive: true});
  document.addEventListener('keydown', onKey);
  addEventListener('storage', (event) => {
    if (event.key !== null && !event.key.startsWith('strata.conversation.')) return;
    conversations.refresh();
    showList();
  });
  // A page that is closed in the middle of an answer keeps what has come.
  addEventListener('pagehide', () => { if (running) conversations.save(conversations.current); });
}

connect();
showAll();
showModels();
