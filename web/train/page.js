// The page of a run: one stream of events, whose first one is the whole state.
import {AttentionView} from '/train/attention.js';
import {Chart, Curve, shortNumber} from '/train/charts.js';

const $ = (id) => document.getElementById(id);
const NAMES = ['loss', 'validation_loss', 'learning_rate', 'gradient_norm', 'tokens_per_second'];
const ENDS = {done: 'Done.', no_improvement: 'Ended: no more improvement.', time_is_up: 'The time is up.', interrupted: 'Stopped.', failed: 'Failed: see the terminal.'};

let curves = {};
let charts = [];
let ended = false;
let drawing = false;
const attention = new AttentionView({grid: $('attention'), note: $('attention-note'), none: $('no-attention'), figure: $('enlarged')});

function seconds(s) {
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, '0')} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, '0')} s` : `${Math.floor(s)} s`;
}

function setState(text, bad = false) {
  if ($('state').textContent !== text) $('state').textContent = text;
  $('state').classList.toggle('bad', bad);
}

// At most once a frame, however many events come.
function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    charts.forEach((chart) => chart.draw());
  });
}

function showFigures(report) {
  const validation = curves.validation_loss.last;
  const figures = {
    Step: `${report.step} of ${report.steps}`,
    Loss: report.loss.toFixed(4),
    'Validation loss': validation === undefined ? '–' : validation.toFixed(4),
    Perplexity: validation === undefined ? '–' : Math.exp(validation).toFixed(2),
    'Learning rate': shortNumber(report.learning_rate),
    'Gradient norm': shortNumber(report.gradient_norm),
    'Tokens per second': Math.round(report.tokens_per_second).toLocaleString('en'),
    'Tokens in all': report.tokens.toLocaleString('en'),
    'Time left': ended ? '–' : seconds(report.seconds_left),
  };
  const list = $('figures');
  for (const [name, value] of Object.entries(figures)) {
    let dd = list.querySelector(`[data-name="${name}"]`);
    if (!dd) {
      const pair = document.createElement('div');
      const dt = document.createElement('dt');
      dt.textContent = name;
      dd = document.createElement('dd');
      dd.dataset.name = name;
      pair.append(dt, dd);
      list.append(pair);
    }
    dd.textContent = value;
  }
  $('progress').value = report.step / report.steps;
  document.title = `${Math.round(100 * report.step / report.steps)} % · strata train`;
}

function showSample({step, text}) {
  $('no-samples').hidden = true;
  const details = document.createElement('details');
  const summary = document.createElement('summary');
  const pre = document.createElement('pre');
  summary.textContent = `After ${step} steps`;
  pre.textContent = text;
  details.append(summary, pre);
  for (const other of $('samples').children) other.open = false;
  details.open = true;
  $('samples').prepend(details);
  while ($('samples').children.length > 20) $('samples').lastChild.remove();
}

const handlers = {
  state(event) {
    $('title').textContent = `strata train ${event.about.out ?? ''}`;
    setState(Object.entries(event.about).filter(([key]) => key !== 'out').map(([key, value]) => `${key} ${typeof value === 'number' ? value.toLocaleString('en') : value}`).join(' · ') || 'Training.');
    curves = Object.fromEntries(NAMES.map((name) => [name, new Curve(event.curves[name])]));
    for (const id of ['loss', ...NAMES.slice(2)]) $(id).replaceChildren();
    charts = [
      new Chart($('loss'), [{name: 'training', curve: curves.loss}, {name: 'validation', curve: curves.validation_loss}]),
      ...NAMES.slice(2).map((name) => new Chart($(name), [{name: name.replaceAll('_', ' '), curve: curves[name]}])),
    ];
    $('samples').replaceChildren();
    event.samples.forEach(showSample);
    if (event.attention) attention.show(event.attention);
    if (event.report) showFigures(event.report);
    if (event.end) handlers.end(event.end);
    drawSoon();
  },
  step(event) {
    for (const name of NAMES) if (event[name] !== undefined) curves[name].add(event.step, event[name]);
    showFigures(event);
    drawSoon();
  },
  sample: showSample,
  attention: (event) => attention.show(event),
  end({how}) {
    ended = true;
    source.close();
    setState(ENDS[how] ?? how, how === 'failed');
  },
};

const source = new EventSource('/events');
source.addEventListener('message', ({data}) => {
  const event = JSON.parse(data);
  handlers[event.kind]?.(event);
});
source.addEventListener('error', () => { if (!ended) setState('The connection is lost; the run may have ended. Trying again…', true); });
