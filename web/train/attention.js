// The weights of every head as squares; one of them larger, with its tokens.

const colour = () => getComputedStyle(document.documentElement).getPropertyValue('--first').trim();

// weights: [tokens * tokens] thousandths, rows look at columns. square: pixels.
function paint(canvas, weights, count, square, left = 0, top = 0) {
  const pen = canvas.getContext('2d');
  pen.fillStyle = colour();
  for (let i = 0; i < weights.length; i++) {
    if (!weights[i]) continue;
    pen.globalAlpha = weights[i] / 1000;
    pen.fillRect(left + (i % count) * square, top + Math.floor(i / count) * square, square, square);
  }
  pen.globalAlpha = 1;
}

export class AttentionView {
  constructor({grid, note, none, figure}) {
    Object.assign(this, {grid, note, none, figure});
    this.chosen = null;
  }

  show(attention) {
    this.attention = attention;
    this.none.hidden = true;
    this.note.hidden = false;
    this.note.textContent = `After ${attention.step} steps, of the beginning of the validation text: rows look at columns.`;
    const count = attention.tokens.length;
    this.grid.replaceChildren(...attention.heads.map((head, i) => {
      const b = document.createElement('button');
      b.type = 'button';
      const canvas = document.createElement('canvas');
      canvas.width = canvas.height = count;
      paint(canvas, head.weights, count, 1);
      b.append(canvas, `layer ${head.layer}, head ${head.head}`);
      b.setAttribute('aria-pressed', String(i === this.chosen));
      b.addEventListener('click', () => this.choose(i === this.chosen ? null : i));
      return b;
    }));
    if (this.chosen !== null) this.choose(Math.min(this.chosen, attention.heads.length - 1));
  }

  choose(index) {
    this.chosen = index;
    this.grid.querySelectorAll('button').forEach((b, i) => b.setAttribute('aria-pressed', String(i === index)));
    this.figure.hidden = index === null;
    if (index !== null) this.enlarge(this.attention.heads[index]);
  }

  enlarge(head) {
    const {tokens} = this.attention;
    const [square, label] = [22, 80];
    const canvas = this.figure.querySelector('canvas');
    canvas.width = canvas.height = label + square * tokens.length;
    const pen = canvas.getContext('2d');
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.font = '12px sans-serif';
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--faint').trim();
    tokens.forEach((token, i) => {
      pen.textAlign = 'right';
      pen.fillText(token, label - 6, label + square * i + 15, label - 8);
      pen.save();
      pen.translate(label + square * i + 15, label - 6);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = 'left';
      pen.fillText(token, 0, 0, label - 8);
      pen.restore();
    });
    paint(canvas, head.weights, tokens.length, square, label, label);
    let best = {weight: -1};
    head.weights.forEach((weight, i) => {
      const [row, column] = [Math.floor(i / tokens.length), i % tokens.length];
      if (column > 0 && column !== row && weight > best.weight) best = {weight, row, column};
    });
    const link = best.weight > 0 ? ` Strongest link: ${tokens[best.row]} → ${tokens[best.column]} ${(best.weight / 1000).toFixed(2)}.` : '';
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `Attention of layer ${head.layer}, head ${head.head}.${link}`);
    this.figure.querySelector('figcaption').textContent = `Layer ${head.layer}, head ${head.head}.${link}`;
  }
}
