"""Random template programs over the constructs that strata's engine has; typed loosely, so that most render and
some fail."""

STRINGS = ["", "a", "Hello World", " padded\t", "x,y,,z", "naïve ß Straße", "日本語 テキスト", "🙂 emoji 👍🏽",
           "line1\nline2\r\nline3\n", "<|im_end|>", "it's \"quoted\"", "tab\there", "1", "-42", "3.5e2", "ABC def",
           "</think>answer", "a</think>b</think>c", "\u00a0nbsp\u2003", "ǆ ǅ Ǆ ŉ", "back\\slash", "{{ not }}", "null\x00byte"]
INTS = [0, 1, 2, 3, -1, -2, 7, 10, 100, -5, 12345]
FLOATS = [0.0, 1.5, -2.25, 3.0, 0.1, 1e20, 1e-7, 123456.789, 2.5, -0.5]
STRING_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "string", "list", "first", "last", "reverse",
                  "wordcount", "tojson", "e", "urlencode", "int", "float", "indent", "indent(2)", "indent(2, true)",
                  "indent('> ', false, true)", "replace('a', 'b')", "replace('l', '', 1)", "default('d')", "default('d', true)",
                  "truncate(8)", "truncate(5, true, '')", "center(14)", "trim('ab ')", "join('-')", "sort|join", "unique|join", "safe",
                  "batch(2)|list", "slice(2)|list", "items|list", "count", "round", "abs", "max", "min", "format(1)", "escape", "forceescape",
                  "tojson(ensure_ascii=true)", "truncate(9, false, '~', 2)", "trim|upper|lower", "replace('\\n', ' ')", "list|join(' ')", "map('upper')|join", "select('in', 'abc')|join",
                  "int(7, 2)", "float(1.5)", "indent(width=1, first=true)", "sort(reverse=true)|join", "replace('a', 1)", "replace(1, 'x')", "batch(3, '.')|map('join')|list", "urlencode|length"]
STRING_METHODS = ["upper()", "lower()", "strip()", "lstrip()", "rstrip()", "strip('ab\\n ')", "split()", "split(',')", "split(' ', 1)",
                  "rsplit(None, 1)", "rsplit(',', 1)", "split('</think>')[-1]", "splitlines()", "splitlines(true)", "title()",
                  "capitalize()", "swapcase()", "startswith('a')", "endswith(('a', 'd'))", "startswith('l', 1)", "replace('e', '3')",
                  "replace('', '-')", "find('l')", "rfind('l')", "find('l', 4)", "count('l')", "count('')", "isdigit()", "isalpha()", "isalnum()", "isspace()",
                  "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()", "isprintable()", "isascii()", "isidentifier()", "partition(' ')", "rpartition(',')",
                  "join(['x', 'y'])", "zfill(6)", "ljust(6)", "rjust(7, '*')", "center(9)", "removeprefix('a')", "removesuffix('d')",
                  "casefold()", "expandtabs(4)", "index('z')", "format(1, 'b')", "encode_missing()", "__class__", "lower", "nothing",
                  "split(none, 2)", "split(sep=',', maxsplit=1)", "rsplit('</think>', 1)[0]", "strip('<|>')", "replace('a', 'b', count=1)", "find('o', -4, -1)", "rindex('a')", "count('a', 2)",
                  "startswith(('<', 'H'), 0, 3)", "endswith('', 2)", "splitlines()[0]", "splitlines(keepends=true)|length", "ljust(4)|length", "upper().lower().title()", "format(*[1, 2])", "join({'a': 1, 'b': 2})",
                  "split('\\n')|map('trim')|list", "rpartition('</think>')[2]", "lstrip('\\n ').rstrip()", "removeprefix('<|').removesuffix('|>')", "translate({97: 'b'})", "maketrans('a', 'b')", "zfill(-3)", "center(5, 'ab')"]
LIST_FILTERS = ["length", "first", "last", "join(', ')", "join", "list", "reverse|list", "sort", "sort(reverse=true)", "unique|list", "sum", "max", "min",
                "tojson", "tojson(indent=2)", "map('string')|list", "map('upper')|join('|')", "select|list", "reject|list",
                "select('string')|list", "reject('none')|list", "select('odd')|list", "batch(2)|list", "batch(3, 0)|list", "slice(2)|list", "string", "map('length')|list",
                "map('default', 'q')|list", "select('in', [1, 'a'])|list", "select('gt', 1)|list", "default([])", "d('x')", "random_missing", "items", "map(attribute=0)|list",
                "selectattr('a')|list", "sort(attribute='a')|list", "map|list", "count", "upper", "wordcount", "pprint_missing", "dictsort", "groupby(0)|list",
                "tojson(indent=0)", "tojson(indent='--')", "tojson(separators=(', ', '='))", "join(', ', attribute=0)", "map('int')|sum", "map('string')|map('length')|list", "selectattr('role', 'in', ['user', 'tool'])|list|length",
                "rejectattr('a', 'eq', 1)|list", "map(attribute='content')|join('|')", "map(attribute='a', default=0)|list", "sum(start=10)", "sum(attribute='a')", "max(attribute='a')", "unique(case_sensitive=true)|list",
                "sort(case_sensitive=true)", "sort(false, true, 0)", "first|default('none')", "last|string|upper", "groupby('role')|map('first')|list", "groupby('a', default=9)|list", "slice(3, 'f')|map('list')|list", "select('mapping')|map('items')|map('list')|list",
                "map('replace', 'a', 'b')|list", "map('truncate', 3)|list", "map('tojson')|join", "select('sameas', none)|list", "reject('in', [1])|list", "batch(0)|list", "slice(0)|list", "reverse|first", "index", "count(1)", "tojson(1)", "min(attribute=0)"]
DICT_FILTERS = ["length", "list", "items|list", "dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "tojson", "tojson(indent=4)",
                "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)", "string", "first", "last", "join('+')", "map('upper')|list",
                "sort|list", "urlencode", "default(1)", "reverse|list", "max", "attr('items')", "attr('k')",
                "tojson(indent=2, sort_keys=true)", "tojson(indent=3, separators=(',', ': '))", "tojson(ensure_ascii=true, indent=1)", "items|map('first')|join", "items|map('last')|list", "dictsort(by='key', reverse=true)", "dictsort(false, 'value')", "map('length')|list", "select('string')|join", "unique|list", "min", "sum", "batch(1)|list", "count", "wordcount", "groupby('a')|list"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable",
         "odd", "even", "divisibleby(3)", "divisibleby 2", "in [1, 'a', none]", "eq 1", "equalto('a')", "ne(2)", "lt 3", "gt(1)", "ge 2", "le 2", "sameas none", "lower", "upper", "escaped",
         "divisibleby(0)", "in 'abc'", "in {'a': 1}", "sameas true", "filter", "test", "== 1", "greaterthan 1", "lessthan(2)", "eq('a') and true", "not none"]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get \"it\" <now> é", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3, "maximum": 1.5}}, "required": ["city"]}}}


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.names = {"s": ["text", "role", "bos_token"], "n": ["n", "k"], "f": ["x"], "l": ["items", "words", "messages", "empty"], "d": ["table", "message"]}

    def pick(self, options):
        return self.rng.choice(options)

    def literal(self, text):
        quote = self.pick(["'", '"'])
        escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\x00", "\\x00").replace(quote, "\\" + quote)
        return quote + escaped + quote

    def string(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.25:
            return self.pick([self.literal(self.pick(STRINGS)), self.pick(self.names["s"])])
        if roll < 0.40:
            return f"{self.string(depth - 1)}.{self.pick(STRING_METHODS)}"
        if roll < 0.55:
            return f"{self.atom(self.string(depth - 1))}|{self.pick(STRING_FILTERS)}"
        if roll < 0.65:
            return f"({self.string(depth - 1)} + {self.string(depth - 1)})"
        if roll < 0.75:
            return f"({self.string(depth - 1)} ~ {self.any(depth - 1)})"
        if roll < 0.85:
            return f"{self.atom(self.string(depth - 1))}[{self.slice(depth)}]"
        if roll < 0.92:
            return self.pick(["'%s-%s'|format({0}, {1})", "'%s' % {0}", "'%05d|%.2f|%x' % ({2}, {2}, {2})", "'%-8s|%8s|%r' % ({0}, {1}, {1})", "'{{}} {{0}}'",
                              "'{{:>8}}|{{:<6}}|{{:^7}}'.format({0}, {1}, {2})", "'{{0[0]}} {{a!r}}'.format({0}, a={1})", "'{{:05d}} {{:+}} {{:x}}'.format({2}, {2}, {2})", "'{{:.3f}} {{:,}}'.format({3}, {2})",
                              "'%+d|% d|%-6d|%06.2f|%e' % ({2}, {2}, {2}, {3}, {3})", "'%g %G %.3g' % ({3}, {3}, {2})", "'%(a)s-%(b)r' % {{'a': {0}, 'b': {1}}}", "'%s %s' % ({0},)", "'%c%c' % (65, 'é')", "'%o %#x %X' % ({2}, {2}, {2})",
                              "'%.2s|%5.1s' % ({0}, {0})", "'{{!r:>12}}|{{!s}}'.format({0}, {1})", "'{{:%}} {{:e}} {{:g}}'.format({3}, {3}, {3})", "'{{:b}} {{:o}} {{:#X}} {{:_}}'.format({2}, {2}, {2}, {2})", "'{{:<{{w}}}}|'.format({0}, w=7)",
                              "'{{0}}{{}}'.format({0})", "'{{a.k}}{{a[k]}}'.format(a=table)", "'{{:*^9}}'.format({0})", "'{{:08.3f}}'.format({3})", "'{{:s}}'.format({2})", "strftime_now('%Y-%m-%d %H:%M:%S %a %b %p %I %y %U %w %-m %e')", "raise_exception({0})"]).format(
                self.string(depth - 1), self.any(depth - 1), self.integer(0), self.real(0))
        return f"({self.string(depth - 1)} if {self.boolean(depth - 1)} else {self.any(depth - 1)})"

    def atom(self, text):
        return text if text[0] != "(" and text.replace("_", "a").isalnum() else f"({text})"

    def slice(self, depth):
        def bound():
            return self.pick(["", str(self.pick(INTS)), self.integer(0)])
        return self.pick([str(self.pick([0, 1, -1, 2, 50])), f"{bound()}:{bound()}", f"{bound()}:{bound()}:{self.pick(['', '1', '2', '-1', '-2'])}", self.integer(depth - 1)])

    def integer(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.35:
            return self.pick([str(abs(self.pick(INTS))), f"({self.pick(INTS)})", self.pick(self.names["n"])])
        if roll < 0.65:
            return f"({self.integer(depth - 1)} {self.pick(['+', '-', '*', '//', '%', '/'])} {self.number(depth - 1)})"
        if roll < 0.70:
            return f"({self.integer(0)} ** {self.pick([0, 1, 2, 3, -1])})"
        if roll < 0.80:
            return f"{self.atom(self.any(depth - 1))}|{self.pick(['length', 'int', 'count', 'abs', 'round', 'int(5)', 'int(0, 16)'])}"
        return self.pick([f"-{self.integer(depth - 1)}", f"+{self.integer(depth - 1)}", f"({self.boolean(depth - 1)} + 1)"])

    def real(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.4:
            return self.pick([repr(abs(self.pick(FLOATS))), "x"])
        if roll < 0.8:
            return f"({self.number(depth - 1)} {self.pick(['+', '-', '*', '/', '//', '%'])} {self.real(depth - 1)})"
        return f"{self.atom(self.number(depth - 1))}|{self.pick(['float', 'round', 'round(1)', 'round(2, ' + repr('floor') + ')', 'round(0, ' + repr('ceil') + ')', 'abs', 'int', 'string', 'tojson', 'round(-1)'])}"

    def number(self, depth):
        return self.pick([self.integer, self.integer, self.real])(depth)

    def list(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.3:
            return self.pick([self.pick(self.names["l"]), "range(4)", "range(1, 8, 3)|list", "range(5, 0, -2)", "[]", "table.keys()", "table.values()|list", "table.items()", "(1, 'a')", "(2,)", "()"])
        if roll < 0.55:
            items = ", ".join(self.any(depth - 1) for _ in range(self.rng.randint(0, 4)))
            return f"[{items}]"
        if roll < 0.75:
            return f"{self.atom(self.list(depth - 1))}|{self.pick(LIST_FILTERS)}"
        if roll < 0.85:
            return f"({self.list(depth - 1)} {self.pick(['+', '+', '*'])} {self.pick([self.list, self.integer])(0)})"
        if roll < 0.95:
            return f"{self.atom(self.list(depth - 1))}[{self.slice(depth)}]"
        return f"{self.atom(self.string(depth - 1))}.split({self.pick(['', self.literal(self.pick(STRINGS))])})"

    def dict(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.4:
            return self.pick(self.names["d"] + ["{}", "messages[0]", "tools[0]", "dict(a=1, b='c')"])
        if roll < 0.75:
            items = ", ".join(f"{self.pick([self.literal(self.pick(STRINGS)), self.integer(0), 'none', 'true'])}: {self.any(depth - 1)}" for _ in range(self.rng.randint(0, 3)))
            return "{" + items + "}"
        return f"{self.atom(self.dict(depth - 1))}|{self.pick(DICT_FILTERS)}"

    def access(self, depth):
        base = self.atom(self.dict(depth - 1))
        return base + self.pick([".k", "['k']", ".items", "['items']", ".get('k')", ".get('zz', 7)", ".content", "['role']", ".missing", ".missing.deep", ".keys()|list", ".values()|list", ".items()|list", ".function.name", ".update({})", "['a']", ".pop('k')", ".copy()", "[0]", "[none]",
                               ".get('k', default=1)", ".get()", ".keys()|sort|join", ".values()|map('string')|join", ".fromkeys(['a'], 1)", ".k.deep", "['k']['deep']", ".items()|first", "|items|list", ".__len__()", "|attr('get')", ".setdefault('k', 1)", ".get('content', '')[:3]"])

    def boolean(self, depth):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.2:
            return self.pick(["true", "false", "flag", "add_generation_prompt", "missing", "none", "text", "empty"])
        if roll < 0.45:
            return f"{self.atom(self.any(depth - 1))} is {self.pick(['', '', 'not '])}{self.pick(TESTS)}"
        if roll < 0.65:
            return f"({self.any(depth - 1)} {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {self.any(depth - 1)})"
        if roll < 0.72:
            return f"({self.number(depth - 1)} {self.pick(['<', '<=', '=='])} {self.number(depth - 1)} {self.pick(['<', '>', '!='])} {self.number(depth - 1)})"
        if roll < 0.9:
            return f"({self.boolean(depth - 1)} {self.pick(['and', 'or'])} {self.boolean(depth - 1)})"
        return f"(not {self.boolean(depth - 1)})"

    def any(self, depth):
        kinds = [self.string] * 4 + [self.integer] * 3 + [self.real, self.list, self.list, self.dict, self.boolean, self.boolean, self.access]
        if self.rng.random() < 0.04:
            return self.pick(["missing", "none", "ns.v", "missing.attr", "loop.index", "namespace(a=1).a", "joiner()()", "cycler(1, 2).next()",
                              "namespace({'b': 2}, c=3).c", "namespace(_a=1)", "dict([('a', 1)])", "dict({'a': 1}, b=2)", "range(3)|list", "range(2, 9, 3)|last", "range(-1)|length", "range(1.5)", "[1, 2, 3][1:] == [2, 3]", "(1, 2) < (1, 3)", "1 < 2 < 3 != 4",
                              "'a' < 'b' < 'c'", "[1] in [[1], 2]", "none == missing", "1 == true", "{'a': 1} == {'a': 1.0}", "'x' * 3", "[0] * 2 + [1]", "not 1 in [1]", "1 if missing", "(1 if false) is defined", "text[::-1]", "items[::-2]", "text[-3:]", "2 ** 3 ** 2", "-2 ** 2", "7 // -2", "-7 % 3", "5.5 % -2", "1e3 == 1000", "'%' ~ 5", "true + true"])
        return self.pick(kinds)(max(depth, 0))

    def tag(self, body):
        left, right = self.pick(["", "", "-", "-", "+"]), self.pick(["", "", "-", "-", "+"])
        return "{%" + left + " " + body + " " + right + "%}"

    def out(self, body):
        return "{{" + self.pick(["", "", "- "]) + " " + body + " " + self.pick(["", "", "-"]) + "}}"

    def data(self):
        return self.pick(["", "\n", " ", "  \n  ", "text", "<|im_start|>", "a\n  ", "\n\n", "{# note #}", "{#- note -#}\n", "é日\n", "{", "%}", "\t"])

    def block(self, depth, in_loop=False):
        return "".join(self.data() + self.statement(depth, in_loop) for _ in range(self.rng.randint(1, 3))) + self.data()

    def statement(self, depth, in_loop=False):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.35:
            return self.out(self.any(self.pick([1, 1, 2, 3])))
        if roll < 0.50:
            parts = self.tag("if " + self.boolean(2)) + self.block(depth - 1, in_loop)
            if self.rng.random() < 0.3:
                parts += self.tag("elif " + self.boolean(2)) + self.block(depth - 1, in_loop)
            if self.rng.random() < 0.5:
                parts += self.tag("else") + self.block(depth - 1, in_loop)
            return parts + self.tag("endif")
        if roll < 0.68:
            target, source = self.pick([("item", self.list(2)), ("item", self.list(1)), ("key, value", "table.items()"), ("item", "text"), ("item", self.dict(1)), ("item", "messages"), ("item", "missing"), ("a, b", "[(1, 2), (3, 4)]")])
            condition = self.pick(["", "", "", " if " + self.boolean(1), " if item"])
            inner = self.block(depth - 1, True)
            if self.rng.random() < 0.5:
                inner += self.out("loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "cycle('a', 'b')", "changed(item)", "depth", "missing"]))
            if self.rng.random() < 0.15:
                inner += self.tag("if " + self.boolean(1)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
            other = self.tag("else") + self.block(depth - 1, in_loop) if self.rng.random() < 0.25 else ""
            return self.tag(f"for {target} in {source}{condition}") + inner + other + self.tag("endfor")
        if roll < 0.80:
            name, maker = self.pick([("text", self.string), ("n", self.integer), ("items", self.list), ("table", self.dict), ("flag", self.boolean), ("ns.v", self.any), ("p, q", lambda d: "(1, 2)")])
            return self.tag(f"set {name} = {maker(2)}")
        if roll < 0.85:
            return self.tag("set text" + self.pick(["", "", " | upper", " | trim | length"])) + self.block(depth - 1) + self.tag("endset")
        if roll < 0.89:
            name = self.pick(["show", "wrap"])
            body = self.block(depth - 1) + self.out(self.pick(["a", "b", "varargs", "kwargs", "a ~ b", "caller()", "name"]))
            call = self.pick([f"{name}(1, 2)", f"{name}('q')", f"{name}(b=3)", f"{name}()", f"{name}(1, 2, 3)", f"{name}(a=1, c=2)"])
            return self.tag(f"macro {name}(a, b={self.pick(['1', 'a', repr('z')])})") + body + self.tag("endmacro") + self.out(call)
        if roll < 0.92:
            return self.tag(f"with item = {self.any(2)}, k = 3") + self.block(depth - 1, in_loop) + self.tag("endwith")
        if roll < 0.95:
            return self.tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "indent(3)|upper"])) + self.block(depth - 1) + self.tag("endfilter")
        if roll < 0.97:
            return self.tag("generation") + self.block(depth - 1) + self.tag("endgeneration")
        if roll < 0.98:
            return self.tag("raw") + self.pick(["{{ raw }}", " {% if %} "]) + self.tag("endraw")
        return self.tag("macro cc(v)") + "[" + self.out("caller(v)") + "]" + self.tag("endmacro") + self.tag("call(u) cc('w')") + self.out("u") + self.block(depth - 1) + self.tag("endcall")


def make_case(rng, name):
    maker = Maker(rng)
    template = "{% set ns = namespace(v=0) %}" * rng.randint(0, 1) + maker.block(rng.randint(1, 3))
    extra = {"text": rng.choice(STRINGS), "role": rng.choice(["user", "système", "tool"]), "n": rng.choice(INTS), "k": rng.choice(INTS), "x": rng.choice(FLOATS), "flag": rng.random() < 0.5,
             "items": rng.choice([[1, 2, 3], ["b", "A", "c"], [], [None, "x", 2.5, True], [[1, 2], [0]], [{"a": 1}, {"a": 0, "b": "z"}]]),
             "words": ["alpha", "Beta", "gamma", "alpha"], "empty": rng.choice([[], "", {}, None]),
             "table": rng.choice([{"k": "v", "a": 1, "B": None}, {"z": [1, 2], "k": {"deep": True}}, {}, {"items": "shadow", "k": 0.5}]),
             "message": {"role": "user", "content": rng.choice(STRINGS), "k": 1}}
    messages = [{"role": rng.choice(["system", "user", "assistant"]), "content": rng.choice(STRINGS)} for _ in range(rng.randint(1, 3))]
    extra = {key: value for key, value in extra.items() if key in template}
    tools = [TOOL] if "tools" in template and rng.random() < 0.7 else None
    return {"name": name, "template": template, "inputs": {"messages": messages if "messages" in template else [], "tools": tools, "extra": extra, "add_generation_prompt": rng.random() < 0.5}}
