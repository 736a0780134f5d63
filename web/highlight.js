// Colours for code: comments, strings, numbers and key words, told apart by one pattern per family of
// languages. Wrong at times (a family shares one list of words), never unsafe: it makes text nodes only.

const words = (text) => new Set(text.split(' '));
const KEYWORDS = words(
  'abstract alignas and as asm assert async auto await begin bool boolean break case catch char class const constexpr ' +
  'continue crate def default defer del delete do done double elif else elseif end enum esac except export extends ' +
  'extern False false fi final finally float fn for foreach from func function global go goto if impl implements import ' +
  'in include inline instanceof int interface is lambda let local long loop match mod module move mut mutable namespace ' +
  'new nil None nonlocal not null nullptr operator or override package pass private protected pub public raise ref ' +
  'register return self short signed sizeof static std struct super switch template then this throw throws trait True ' +
  'true try type typedef typename typeof undefined union unsafe unsigned until use using val var virtual void volatile ' +
  'when where while with yield');
const SQL = words(
  'add all alter and as asc between by case count create cross delete desc distinct drop else end exists foreign from ' +
  'full group having in index inner insert into is join key left like limit not null on or order outer primary ' +
  'references right select set table then union unique update values view when where with');

const STRING = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`;
const NUMBER = String.raw`\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)`;
const pattern = (comment, string) => new RegExp(`(${comment})|(${string})|(${NUMBER})|([A-Za-z_]\\w*)`, 'g');
const FAMILIES = [
  {
    names: words('c cc cpp c++ cxx h hpp cs csharp java js javascript jsx mjs ts typescript tsx go rust rs swift kotlin kt scala php dart json css scss'),
    pattern: pattern(String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`, STRING + '|`(?:[^`\\\\]|\\\\.)*`'),
    keywords: KEYWORDS,
  },
  {
    names: words('python py python3 ruby rb r julia bash sh shell zsh console yaml yml toml ini cmake make makefile dockerfile perl'),
    pattern: pattern('#[^\\n]*', String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|` + STRING),
    keywords: KEYWORDS,
  },
  {
    names: words('sql mysql sqlite postgresql lua haskell hs'),
    pattern: pattern('--[^\\n]*', STRING),
    keywords: SQL,
    foldCase: true,
  },
];

export function highlight(code, language) {
  const family = FAMILIES.find((f) => f.names.has(language));
  if (!family) return;
  const text = code.textContent;
  const out = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(family.pattern)) {
    const [all, comment, string, number] = match;
    const key = family.foldCase ? all.toLowerCase() : all;
    const kind = comment ? 'comment' : string ? 'string' : number ? 'number' : family.keywords.has(key) ? 'keyword' : '';
    if (!kind) continue;
    out.append(text.slice(end, match.index));
    const span = document.createElement('span');
    span.className = kind;
    span.textContent = all;
    out.append(span);
    end = match.index + all.length;
  }
  out.append(text.slice(end));
  code.replaceChildren(out);
}
