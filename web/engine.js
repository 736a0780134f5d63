// The engine's tab: what the engine of the chosen model computes, holds and has waiting, as it happens.
import {engineSteps} from '/web/api.js';
import {$, element} from '/web/dom.js';
import {KINDS, drawLines, drawTimeline, short} from '/web/engine_charts.js';
import {apiKey} from '/web/settings.js';

const EVERY_MS = 500;
const SHOWN_S = 60;
const RATE_S = 2;   // rates are means over this time
const KIND_NAMES = {prompt: 'prompt read', token: 'token generated', preempted: 'preempted', swapped: 'preempted, swapped'};

let modelName = () => '';
let shown = '';        // the model whose steps these are
let last = null;       // number of the newest step
let steps = [];        // of the last SHOWN_S seconds
let looks = [];        // the engine at each look: {time_s, cpu_seconds, running, ...}
let timer = 0;
let parts = null;      // the tab's elements, made when it is first shown

export const engineIsShown = () => !$('engine').hidden;

// ---- Elements -------------------------------------------------------------------------------------

function figure(title, names, wide = false) {
  const box = element('figure', wide ? 'wide' : '');
  const legend = element('figcaption');
  legend.append(element('strong', '', title));
  const values = names.map(([name, kind]) => {
    const item = element('span', 'entry');
    const value = element('b');
    item.append(element('i', kind), `${name} `, value);
    legend.append(item);
    return value;
  });
  const canvas = element('canvas');
  canvas.setAttribute('role', 'img');
  const plot = element('div', 'plot');
  plot.append(canvas);
  box.append(legend, plot);
  return {box, canvas, title, names, values};
}

function build() {
  const tiles = element('dl', 'tiles');
  const tile = (name) => {
    const value = element('dd', '', '–');
    const cell = element('div');
    cell.append(element('dt', '', name), value);
    tiles.append(cell);
    return value;
  };
  parts = {
    problem: element('p', 'problem'),
    running: tile('Running'), waiting: tile('Waiting'), rate: tile('Tokens/s'), pages: tile('Pages in use'),
    waste: tile('Fragmentation'), cores: tile('Cores busy'), preempted: tile('Preempted / swapped'),
    timeline: figure('What each step computed', KINDS.map((kind) => [KIND_NAMES[kind], `kind-${kind}`]), true),
    queue: figure('Requests', [['running', 'line-1'], ['waiting', 'line-2']]),
    tokens: figure('Tokens a second', [['generated', 'line-1'], ['prompts', 'line-2']]),
    use: figure('Pages', [['in use', 'line-1'], ['prefix cache', 'line-2']]),
    waste_plot: figure('Fragmentation, % of what is held', [['not needed', 'line-1']]),
    cores_plot: figure('Cores busy', [['', 'line-1']]),
  };
  parts.problem.setAttribute('role', 'status');
  parts.problem.hidden = true;
  const plots = element('div', 'plots');
  plots.append(...Object.values(parts).filter((p) => p.box).map((p) => p.box));
  $('engine').append(parts.problem, tiles, plots);
}

// ---- What is shown --------------------------------------------------------------------------------

const rowsOf = (step, kind) => step.parts.reduce((sum, [, , rows, k]) => sum + (k === kind ? rows : 0), 0);

// Rows of a kind a second, at the time of each look.
function ratesOf(kind) {
  const made = steps.map((step) => [step.begin_s + step.seconds, rowsOf(step, kind)]);
  return looks.map(({time_s: now}) => {
    const sum = made.reduce((total, [end, rows]) => total + (end > now - RATE_S && end <= now ? rows : 0), 0);
    return [now, sum / RATE_S];
  });
}

function busyCores() {
  return looks.slice(1).map((look, i) => {
    const before = looks[i];
    return [look.time_s, (look.cpu_seconds - before.cpu_seconds) / Math.max(look.time_s - before.time_s, 1e-3)];
  });
}

function drawFigure(figure, points, span, most) {
  const format = (line) => (line.length ? short(line.at(-1)[1]) : '–');
  points.forEach((line, i) => { figure.values[i].textContent = format(line); });
  figure.canvas.setAttribute('aria-label',
    `${figure.title}: ${figure.names.map(([name], i) => `${name} ${format(points[i])}`.trim()).join(', ')}`);
  drawLines(figure.canvas, points.map((line, i) => ({colour: `--line-${i + 1}`, points: line})), span, most);
}

function draw() {
  const now = looks.at(-1);
  if (!now) return;
  const span = [now.time_s - SHOWN_S, now.time_s];
  const generated = ratesOf('token');
  const busy = busyCores();
  const waste = steps.filter((s) => s.held_bytes > 0).map((s) => [s.begin_s, 100 * s.wasted_bytes / s.held_bytes]);
  const of = (get) => looks.map((look) => [look.time_s, get(look)]);
  parts.running.textContent = now.running;
  parts.waiting.textContent = now.waiting;
  parts.rate.textContent = short(generated.at(-1)[1]);
  parts.pages.textContent = `${now.pages.used.toLocaleString('en')} / ${now.pages.total.toLocaleString('en')}`;
  parts.waste.textContent = now.running && waste.length ? `${short(waste.at(-1)[1])} %` : '–';
  parts.cores.textContent = busy.length ? `${busy.at(-1)[1].toFixed(1)} / ${now.cores}` : '–';
  parts.preempted.textContent = `${now.preemptions} / ${now.swaps}`;
  const answers = drawTimeline(parts.timeline.canvas, steps, span);
  parts.timeline.canvas.setAttribute('aria-label', `${steps.length} steps with ${answers} answers in the last ${SHOWN_S} seconds`);
  drawFigure(parts.queue, [of((l) => l.running), of((l) => l.waiting)], span);
  drawFigure(parts.tokens, [generated, ratesOf('prompt')], span);
  drawFigure(parts.use, [of((l) => l.pages.used), of((l) => l.pages.cached)], span, now.pages.total);
  drawFigure(parts.waste_plot, [waste], span);
  drawFigure(parts.cores_plot, [busy], span, now.cores);
}

// ---- Looking ---------------------------------------------------------------------------------------

function forget(model) {
  shown = model;
  last = null;
  steps = [];
  looks = [];
}

async function look() {
  const model = modelName();
  if (!model) return;
  if (model !== shown) forget(model);
  for (let more = true; more;) {
    const answer = await engineSteps(model, last ?? 0, apiKey());
    if (model !== modelName() || (last !== null && answer.last < last)) return forget('');  // another one, or begun anew
    steps.push(...answer.steps);
    last = answer.steps.at(-1)?.number ?? answer.last;
    more = last < answer.last;
    if (!more) looks.push(answer.now);
  }
  const oldest = looks.at(-1).time_s - SHOWN_S;
  steps = steps.filter((step) => step.begin_s + step.seconds >= oldest);
  looks = looks.filter((l) => l.time_s >= oldest);
}

async function turn() {
  clearTimeout(timer);
  if (document.visibilityState === 'visible') {
    try {
      await look();
      parts.problem.hidden = true;
    } catch (error) {
      parts.problem.textContent = error.message;
      parts.problem.hidden = false;
    }
    draw();
  }
  if (engineIsShown()) timer = setTimeout(turn, EVERY_MS);
}

export function showEngine(on) {
  $('engine').hidden = !on;
  $('log').hidden = $('composer').hidden = on;
  $('show-engine').setAttribute('aria-pressed', String(on));
  clearTimeout(timer);
  if (!on) return;
  if (!parts) build();
  turn();
}

// model: tells the name of the chosen model.
export function connectEngine(model) {
  modelName = model;
  $('show-engine').addEventListener('click', () => showEngine(!engineIsShown()));
}
