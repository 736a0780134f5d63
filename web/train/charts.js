// Curves as SVG, drawn again when they or their room change.

const SVG = 'http://www.w3.org/2000/svg';
const LEFT = 58, RIGHT = 12, TOP = 22, BOTTOM = 22;

// Round numbers, 1, 2 or 5 times a power of ten apart, that cover [low, high].
export function roundTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const digit = rough / power;
  const step = (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  return ticks;
}

export const shortNumber = (v) => v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3)
  ? v.toExponential(1) : String(Number(v.toPrecision(4)));

// A curve that keeps at most some thousand points: when it is full every other one goes.
export class Curve {
  constructor(points = []) { this.points = points; }

  add(step, value) {
    if (!Number.isFinite(value)) return;
    this.points.push([step, value]);
    if (this.points.length > 4000) this.points = this.points.filter((_, i) => i % 2 === 0);
  }

  get last() { return this.points.at(-1)?.[1]; }
}

function shape(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// lines: [{name, curve}], at most two.
export class Chart {
  constructor(place, lines) {
    this.place = place;
    this.lines = lines;
    this.svg = shape('svg', {role: 'img'});
    place.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(place);
  }

  draw() {
    const {width, height} = this.place.getBoundingClientRect();
    const points = this.lines.flatMap(({curve}) => curve.points);
    this.svg.replaceChildren();
    this.svg.setAttribute('aria-label', this.lines.map(({name, curve}) =>
      `${name}: ${curve.points.length ? `${shortNumber(curve.last)} after ${curve.points.at(-1)[0]} steps` : 'no values yet'}`).join('; '));
    if (!points.length || width < LEFT + RIGHT + 20) return;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of points) {
      x0 = Math.min(x0, x); x1 = Math.max(x1, x);
      y0 = Math.min(y0, y); y1 = Math.max(y1, y);
    }
    if (x0 === x1) x1 = x0 + 1;
    if (y0 === y1) [y0, y1] = [y0 - Math.abs(y0) / 2 - 1e-12, y1 + Math.abs(y1) / 2 + 1e-12];
    const atX = (x) => LEFT + (width - LEFT - RIGHT) * (x - x0) / (x1 - x0);
    const atY = (y) => TOP + (height - TOP - BOTTOM) * (1 - (y - y0) / (y1 - y0));
    for (const v of roundTicks(y0, y1, height > 200 ? 6 : 3)) {
      this.svg.append(shape('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: atY(v), y2: atY(v)}),
                      shape('text', {x: LEFT - 6, y: atY(v) + 4, 'text-anchor': 'end'}, shortNumber(v)));
    }
    for (const v of roundTicks(x0, x1, width > 500 ? 8 : 3))
      this.svg.append(shape('text', {x: atX(v), y: height - 5, 'text-anchor': 'middle'}, String(v)));
    this.lines.forEach(({name, curve}, i) => {
      const kind = i === 0 ? 'first' : 'second';
      const d = curve.points.map(([x, y], j) => `${j ? 'L' : 'M'}${atX(x).toFixed(1)} ${atY(y).toFixed(1)}`).join('');
      if (d) this.svg.append(shape('path', {class: kind, d}));
      if (this.lines.length > 1) this.svg.append(shape('text', {class: kind, x: LEFT + 110 * i, y: 13}, name));
    });
  }
}
