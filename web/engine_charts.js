// Pictures of the engine's tab, on canvases; colours are those of the style sheet.

const LEFT = 44, TOP = 8, BOTTOM = 20, RIGHT = 6;
const ROW = 14, MOST_ROWS = 40;
export const KINDS = ['prompt', 'token', 'preempted', 'swapped'];

const colour = (canvas, name) => getComputedStyle(canvas).getPropertyValue(name);

// A context scaled to the screen's pixels, wiped; null while the canvas is not shown.
function begin(canvas, height) {
  const width = canvas.parentElement.clientWidth;
  if (!width) return null;
  const scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  context.fillStyle = colour(canvas, '--faint');
  context.strokeStyle = colour(canvas, '--edge');
  context.lineWidth = 1;
  return {context, width, height, atX: (t, [from, to]) => LEFT + (width - LEFT - RIGHT) * (t - from) / (to - from)};
}

function drawTimes({context, width, height, atX}, span) {
  context.textAlign = 'center';
  for (let back = 0; back <= span[1] - span[0]; back += width > 500 ? 10 : 20) {
    context.fillText(back ? `−${back} s` : 'now', Math.min(atX(span[1] - back, span), width - 14), height - 5);
  }
}

// 1, 2 or 5 times a power of ten, not below `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((m) => m * power).find((v) => v >= value * 0.999);
}

export const short = (value) => value >= 1000 ? `${Number((value / 1000).toPrecision(3))}k` : String(Number(value.toPrecision(3)));

// lines: [{colour: '--name', points: [[seconds, value]]}]; span: [from, to] in seconds; most: of the
// y axis, or 0: what the points need.
export function drawLines(canvas, lines, span, most = 0) {
  const frame = begin(canvas, 130);
  if (!frame) return;
  const {context, width, height, atX} = frame;
  const top = roundUp(most || Math.max(1e-9, ...lines.flatMap(({points}) => points.map(([, v]) => v))) || 1);
  const atY = (v) => TOP + (height - TOP - BOTTOM) * (1 - Math.min(v, top) / top);
  context.textAlign = 'right';
  for (const v of [0, top / 2, top]) {
    context.beginPath();
    context.moveTo(LEFT, atY(v));
    context.lineTo(width - RIGHT, atY(v));
    context.stroke();
    context.fillText(short(v), LEFT - 6, atY(v) + 4);
  }
  drawTimes(frame, span);
  context.lineWidth = 1.75;
  context.lineJoin = 'round';
  for (const line of lines) {
    context.strokeStyle = colour(canvas, line.colour);
    context.beginPath();
    line.points.forEach(([t, v], i) => context[i ? 'lineTo' : 'moveTo'](Math.max(LEFT, atX(t, span)), atY(v)));
    context.stroke();
  }
}

// Which answer had rows in which step. steps: as GET /engine/steps gives them. Returns how many
// answers there are.
export function drawTimeline(canvas, steps, span) {
  const rows = new Map();
  for (const step of steps) for (const [request, choice] of step.parts) rows.set(`${request}/${choice}`, 0);
  const shown = [...rows.keys()].slice(-MOST_ROWS);
  const frame = begin(canvas, TOP + BOTTOM + ROW * Math.max(shown.length, 4));
  if (!frame) return rows.size;
  const {context, atX} = frame;
  context.textAlign = 'right';
  shown.forEach((name, i) => {
    rows.set(name, TOP + ROW * i);
    if (i % Math.ceil(shown.length / 20) === 0) context.fillText(name.replace(/\/0$/, ''), LEFT - 6, TOP + ROW * i + 10);
  });
  drawTimes(frame, span);
  // Preemptions are rare and have no length: they lie on top, and are as wide as can be seen.
  for (const wanted of KINDS) {
    context.fillStyle = colour(canvas, `--kind-${wanted}`);
    for (const step of steps) {
      const x = Math.max(LEFT, atX(step.begin_s, span));
      const right = atX(step.begin_s + step.seconds, span);
      for (const [request, choice, count, kind] of step.parts) {
        const y = rows.get(`${request}/${choice}`);
        if (kind === wanted && y) context.fillRect(x, y + 2, Math.max(right - x, count ? 0.8 : 3), ROW - 4);
      }
    }
  }
  return rows.size;
}
