// Conversations and settings, kept in this browser only.

const CONVERSATIONS = 'strata.conversations';
const SETTINGS = 'strata.settings';

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

// A conversation: {id, title, messages: [{role, content, figures?, error?}]}, newest first.
export class Conversations {
  constructor() {
    this.all = read(CONVERSATIONS, []);
    this.current = this.all[0] ?? this.create();
  }

  create() {
    const empty = this.all.find((c) => c.messages.length === 0);
    this.current = empty ?? {id: crypto.randomUUID?.() ?? String(Date.now()), title: '', messages: []};
    if (!empty) this.all.unshift(this.current);
    return this.current;
  }

  open(id) {
    this.current = this.all.find((c) => c.id === id) ?? this.current;
  }

  remove(id) {
    this.all = this.all.filter((c) => c.id !== id);
    if (this.current.id === id) this.current = this.all[0] ?? this.create();
    return this.save();
  }

  save() {
    const first = this.current.messages.find((m) => m.role === 'user');
    this.current.title = first ? first.content.slice(0, 60) : '';
    return write(CONVERSATIONS, this.all.filter((c) => c.messages.length > 0));
  }
}
