// Conversations and settings, kept in this browser only.

const CONVERSATION = 'strata.conversation.';
const SETTINGS = 'strata.settings';
const TITLE_LENGTH = 80;

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// Returns whether there was room; private windows and full stores have none.
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export const loadSettings = () => read(SETTINGS, {});
export const saveSettings = (settings) => write(SETTINGS, settings);

// The key opens the server, so it lives no longer than its tab.
export function loadKey() {
  try {
    return sessionStorage.getItem('strata.key') ?? '';
  } catch {
    return '';
  }
}
export function saveKey(key) {
  try {
    sessionStorage.setItem('strata.key', key);
  } catch {
    // Without a store the field itself remembers.
  }
}

const newId = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;

function storedConversations() {
  let keys = [];
  try {
    keys = Object.keys(localStorage).filter((key) => key.startsWith(CONVERSATION));
  } catch {
    // No store: this page's own conversations are all there is.
  }
  return keys.map((key) => read(key, null)).filter((c) => c && Array.isArray(c.messages) && c.messages.length > 0);
}

// A conversation: {id, title, time (ms, of its last change), messages: [{role, content, model?, stats?, error?}]}.
// Each has a key of its own, so that two tabs do not write over each other's.
export class Conversations {
  constructor() {
    this.all = storedConversations();
    this.current = this.newestFirst()[0] ?? this.create();
  }

  newestFirst() {
    return this.all.filter((c) => c.messages.length > 0).sort((a, b) => b.time - a.time);
  }

  create() {
    let empty = this.all.find((c) => c.messages.length === 0);
    if (!empty) {
      empty = {id: newId(), title: '', time: Date.now(), messages: []};
      this.all.push(empty);
    }
    this.current = empty;
    return empty;
  }

  open(id) {
    this.current = this.all.find((c) => c.id === id) ?? this.current;
  }

  save(conversation) {
    if (!this.all.includes(conversation)) return true;  // deleted while its answer came
    const first = conversation.messages.find((m) => m.role === 'user');
    conversation.title = first ? first.content.trim().replace(/\s+/g, ' ').slice(0, TITLE_LENGTH) : '';
    conversation.time = Date.now();
    return write(CONVERSATION + conversation.id, conversation);
  }

  remove(conversation) {
    this.all = this.all.filter((c) => c !== conversation);
    try {
      localStorage.removeItem(CONVERSATION + conversation.id);
    } catch {
      // Nothing was kept.
    }
    if (this.current === conversation) this.current = this.newestFirst()[0] ?? this.create();
  }

  restore(conversation) {
    this.all.push(conversation);
    this.current = conversation;
    return write(CONVERSATION + conversation.id, conversation);
  }

  // Takes over what another tab changed, except in the conversation that is open here.
  refresh() {
    const stored = storedConversations().filter((c) => c.id !== this.current.id);
    const empty = this.all.filter((c) => c.messages.length === 0 && c !== this.current);
    this.all = [...stored, ...empty, this.current];
  }
}

// What of a conversation goes to the model: a question that failed is left out together with its error,
// and two turns of one role are joined, since many templates want the roles to alternate.
export function contextOf(messages) {
  const sent = [];
  messages.forEach((m, i) => {
    const answer = messages[i + 1];
    const failed = m.role === 'user' && answer?.error && !answer.content;
    if (failed || !m.content) return;
    const last = sent[sent.length - 1];
    if (last?.role === m.role) last.content += `\n\n${m.content}`;
    else sent.push({role: m.role, content: m.content});
  });
  return sent;
}
