// The settings dialog: system prompt, sampling, appearance and the API key.
import {$} from '/web/dom.js';
import {loadKey, loadSettings, saveKey, saveSettings} from '/web/store.js';

const SAMPLING = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'presence_penalty', 'max_tokens', 'seed'];

export const settings = loadSettings();

export const apiKey = () => $('api-key').value.trim();

const isSet = (name) => settings[name] !== undefined && settings[name] !== '';

// The sampling fields of a request: those that are filled in.
export function samplingFields() {
  return Object.fromEntries(SAMPLING.filter(isSet).map((name) => [name, Number(settings[name])]));
}

export const systemPrompt = () => settings.system?.trim() ?? '';

// A dot on the button tells that answers are not made with the defaults.
function showWhetherChanged() {
  const changed = systemPrompt() !== '' || SAMPLING.some(isSet);
  $('open-settings').classList.toggle('changed', changed);
  $('open-settings').setAttribute('aria-label', changed ? 'Settings (changed)' : 'Settings');
}

function showTheme() {
  const theme = settings.theme ?? 'system';
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const radio of $('theme').querySelectorAll('input')) radio.checked = radio.value === theme;
}

export function setSetting(name, value) {
  settings[name] = value;
  saveSettings(settings);
  showWhetherChanged();
}

let keyAtOpening = '';
export function openSettings(focusId) {
  keyAtOpening = apiKey();
  $('settings').showModal();
  if (focusId) $(focusId).focus();
}

export function connectSettings(onKeyChange) {
  const dialog = $('settings');
  for (const id of ['system', ...SAMPLING]) {
    $(id).value = settings[id] ?? '';
    $(id).addEventListener('input', () => setSetting(id, $(id).value));
  }
  $('reset-sampling').addEventListener('click', () => {
    for (const id of SAMPLING) {
      $(id).value = '';
      setSetting(id, '');
    }
  });
  $('theme').addEventListener('change', (event) => {
    setSetting('theme', event.target.value);
    showTheme();
  });
  $('api-key').value = loadKey();
  $('api-key').addEventListener('input', () => saveKey(apiKey()));
  dialog.addEventListener('close', () => {
    if (apiKey() !== keyAtOpening) onKeyChange();
  });
  $('open-settings').addEventListener('click', () => openSettings());
  $('close-settings').addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();  // the backdrop: everything inside is in the form
  });
  dialog.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close();
  });
  showTheme();
  showWhetherChanged();
}
