"""Random template programs about names: which variable a name means in nested loops, macros, call, set, filter, with and
generation blocks, before and after it is set. Few names, so that they hide each other; undefined prints as nothing, so
that most programs render."""

NAMES = ["x", "y", "z", "u"]
MACROS = ["f", "g"]
LITERALS = ["1", "2", "'s'", "'<t>'", "none", "true", "[1, 2]", "{'k': 3}", "-4", "2.5"]
SEQUENCES = ["[1, 2, 3]", "'ab'", "range(2)", "[]", "x", "y", "[x, z]", "words", "range(3, 0, -1)", "{'k': 1, 'x': 2}", "(1, 2)"]
LOOP = ["index", "index0", "first", "last", "length", "revindex", "revindex0", "depth", "depth0", "previtem", "nextitem",
        "cycle('p', 'q')", "cycle(x, 'q')", "changed(x)", "changed(i, z)", "cycle", "nothing", "previtem is defined", "nextitem|default('-')"]
FILTERS = ["upper", "trim", "replace(' ', '_')", "length", "indent(2)", "default(x)", "string|lower", "center(9)", "reverse", "tojson", "title"]


class BlockMaker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return self.rng.choice(options)

    def chance(self, share):
        return self.rng.random() < share

    def name(self):
        return self.pick(NAMES)

    def expression(self, depth=2):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.35:
            return self.name()
        if roll < 0.45:
            return self.pick(LITERALS)
        if roll < 0.55:
            return f"loop.{self.pick(LOOP)}"
        if roll < 0.62:
            return f"{self.name()} is {self.pick(['defined', 'undefined', 'none', 'string', 'not defined', 'iterable', 'number', 'mapping', 'true', 'in [1, 2]', 'callable'])}"
        if roll < 0.72:
            return f"({self.expression(depth - 1)} ~ {self.expression(depth - 1)})"
        if roll < 0.78:
            return f"({self.expression(depth - 1)} if {self.condition()}{self.pick(['', ' else ' + self.expression(depth - 1)])})"
        if roll < 0.82:
            return f"({self.expression(depth - 1)})|{self.pick(['default(0)', 'default(z, true)', 'string', 'd', 'tojson', 'list', 'first', 'length'])}"
        if roll < 0.90:
            return self.call()
        return self.pick(["caller()", "caller(x)", "varargs", "kwargs", "caller is defined", "ns.v", "ns.w", "ns", "loop is defined", "kwargs.k", "varargs|length", "caller(1, u=2)",
                          "f.name", "g.arguments", "f.catch_kwargs", "g.caller", "range is defined", "x.k", "z[0]", "messages|length", "namespace is callable"])

    def condition(self):
        return self.pick(["true", "false", self.name(), f"{self.name()} is defined", f"{self.name()} == 1", "loop.first", "loop.index is odd", "not " + self.name(),
                          "ns.v", f"{self.name()} == {self.name()}", "caller", "i is defined and i == 2", f"{self.name()} in [1, 's', none]"])

    def call(self):
        positional = [self.pick([self.name(), *LITERALS]) for _ in range(self.rng.randint(0, 2))]
        named = [f"{key}={self.pick([self.name(), *LITERALS])}" for key in ("x", "y", "k", "caller") if self.chance(0.15)]
        star = ["*[1]"] if self.chance(0.07) else []
        double = ["**{'y': 5}"] if self.chance(0.07) else []
        macro = self.pick(MACROS)
        shown = f"{macro}({', '.join(positional + named + star + double)})"
        return f"({shown} if {macro} is defined and depth_guard is undefined)" if self.chance(0.8) else shown

    def tag(self, body):
        return "{%" + self.pick(["", "", "-", "+"]) + " " + body + " " + self.pick(["", "", "-", "+"]) + "%}"

    def out(self, body):
        return "{{" + self.pick(["", "", "-"]) + " " + body + " " + self.pick(["", "", "-"]) + "}}"

    def text(self):
        return self.pick(["", ",", "\n", " ", "\n  ", ";", "t", "  \n"])

    def block(self, depth, loops=0):
        return "".join(self.text() + self.statement(depth, loops) for _ in range(self.rng.randint(1, 4))) + self.text()

    def target(self):
        return self.pick([self.name(), self.name(), self.name(), "ns.v", "x, y", "ns.w, z", "(x, (y, z))"])

    def signature(self):
        names = self.rng.sample([*NAMES, "v"], self.rng.randint(0, 3))
        if self.chance(0.05):
            names.append(self.pick(["caller", "kwargs", "varargs", "x"]))
        start = self.rng.randint(0, len(names))
        return ", ".join(n if i < start else f"{n}={self.pick([*LITERALS, *NAMES, 'f', 'kwargs'])}" for i, n in enumerate(names))

    def statement(self, depth, loops):
        roll = self.rng.random()
        if depth <= 0 or roll < 0.30:
            return self.out(self.expression())
        if roll < 0.45:
            target = self.target()
            value = "(1, (2, 3))" if "((" in target or "(y" in target else "(7, 8)" if "," in target else self.expression()
            return self.tag(f"set {target} = {value}")
        if roll < 0.55:
            other = self.tag("else") + self.block(depth - 1, loops) if self.chance(0.4) else ""
            middle = self.tag("elif " + self.condition()) + self.block(depth - 1, loops) if self.chance(0.3) else ""
            return self.tag("if " + self.condition()) + self.block(depth - 1, loops) + middle + other + self.tag("endif")
        if roll < 0.72:
            target = self.pick(["i", "i", "x", "y", "k, z", "loop" if self.chance(0.05) else "u"])
            source = "table.items()" if "," in target else self.pick(SEQUENCES)
            condition = f" if {self.pick([self.condition(), target.split(',')[0], 'i != 2', 'x'])}" if self.chance(0.3) else ""
            recursive = " recursive" if self.chance(0.15) else ""
            body = self.block(depth - 1, loops + 1)
            if recursive and self.chance(0.7):
                body += self.out("loop([9]) if loop.depth < 3 and loop.first")
            if self.chance(0.2):
                body += self.tag("if " + self.condition()) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
            other = ""
            if self.chance(0.3):
                other = self.tag("else") + self.block(depth - 1, loops) + (self.tag(self.pick(["break", "continue"])) if loops and self.chance(0.3) else "")
            return self.tag(f"for {target} in {source}{condition}{recursive}") + body + other + self.tag("endfor")
        if roll < 0.82:
            name = self.pick(MACROS)
            return self.tag(f"macro {name}({self.signature()})") + self.block(depth - 1) + self.tag("endmacro")
        if roll < 0.87:
            arguments = f"({self.signature()})" if self.chance(0.5) else ""
            return self.tag(f"call{arguments} {self.pick(MACROS)}({self.pick(['', '1', 'x', 'y=2', 'x, z'])})") + self.block(depth - 1) + self.tag("endcall")
        if roll < 0.91:
            use = f" | {self.pick(FILTERS)}" if self.chance(0.4) else ""
            return self.tag(f"set {self.name()}{use}") + self.block(depth - 1, loops) + self.tag("endset")
        if roll < 0.94:
            return self.tag(f"filter {self.pick(FILTERS)}") + self.block(depth - 1, loops) + self.tag("endfilter")
        if roll < 0.98:
            names = self.rng.sample(NAMES, self.rng.randint(0, 2))
            made = ", ".join(f"{n} = {self.expression()}" for n in names)
            return self.tag(f"with {made}") + self.block(depth - 1, loops) + self.tag("endwith")
        return self.tag("generation") + self.block(depth - 1) + self.tag("endgeneration")


def make_case(rng, name):
    maker = BlockMaker(rng)
    template = "{% set ns = namespace(v=0) %}" + maker.block(rng.randint(2, 4))
    extra = {"x": rng.choice([1, "rx", [4, 5], {"k": "v"}, True]), "y": rng.choice([2, "ry", [], None]), "words": ["a", "b"], "table": {"k": 1, "x": [2]}}
    if rng.random() < 0.5:
        extra["f"] = "request f"
    return {"name": name, "template": template, "inputs": {"messages": [], "tools": None, "extra": extra, "add_generation_prompt": True}}
