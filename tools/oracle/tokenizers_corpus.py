"""The texts that tokenizers are compared on: 30 scripts, emoji with joiners, combining marks, code, runs of blanks
and line ends, digits, NUL, and contractions. Deterministic; tokenizers_golden.py writes them to corpus.txt."""
import random

SCRIPTS = {
    "Latin": "The quick brown fox jumps over the lazy dog; naïve façade, Straße, Łódź, İstanbul, ſhip.",
    "Greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ς σ",
    "Cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Armenian": "Բել դղյակի ձախ ժամն օֆ ազգությանը ցպահանջ չճշտած։",
    "Hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם",
    "Arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "Syriac": "ܫܠܡܐ ܥܠܡܐ",
    "Thaana": "މިއީ ދިވެހި ބަސް",
    "Devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३",
    "Bengali": "আমার সোনার বাংলা, আমি তোমায় ভালোবাসি ৪৫৬",
    "Gurmukhi": "ਪੰਜਾਬੀ ਭਾਸ਼ਾ ਸੋਹਣੀ ਹੈ",
    "Gujarati": "ગુજરાતી ભાષા સુંદર છે",
    "Oriya": "ଓଡ଼ିଆ ଭାଷା",
    "Tamil": "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல் இனிதாவது எங்கும் காணோம்",
    "Telugu": "దేశ భాషలందు తెలుగు లెస్స",
    "Kannada": "ಕನ್ನಡ ನಾಡು ನುಡಿ",
    "Malayalam": "മലയാളം ഭാഷ",
    "Sinhala": "සිංහල භාෂාව",
    "Thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓",
    "Lao": "ພາສາລາວ ສະບາຍດີ",
    "Tibetan": "བོད་སྐད་ཡིག",
    "Burmese": "မြန်မာဘာသာစကား",
    "Georgian": "გთხოვთ ახლავე გაიაროთ რეგისტრაცია",
    "Hangul": "키스의 고유조건은 입술끼리 만나야 하고 \u1112\u1161\u11ab",
    "Ethiopic": "ሰማይ አይታረስ ንጉሥ አይከሰስ።",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "Khmer": "ភាសាខ្មែរ",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ a\u180eb \u180e",
    "Han": "我能吞下玻璃而不伤身体。漢字𠀀𪜀",
    "Kana": "いろはにほへと ちりぬるを ｶﾀｶﾅ ガギグ か\u3099",
    "Runic": "ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ",
    "Gothic": "𐌼𐌰𐌲 𐌲𐌻𐌴𐍃",
}

CODE = '''#include <stdio.h>
int main(void) {
\tfor (int i = 0; i < 10; ++i) { printf("%d\\n", i*i); }  // loop
\treturn 0;
}
def f(x):
    if x is None:
        return {"a": [1, 2.5e-10, 0xFF], 'b': r"\\d+\\s*"}
    return lambda *args, **kw: f(x-1)
<div class="a b">text &amp; more</div>
SELECT * FROM t WHERE a='b' AND c<>d;\r
\r
x = y<z>(w) && !q || ~r ^ s; // 100% $HOME @user #tag
'''

SMALL = [
    "", " ", "  ", "\n", "\n\n", "\t", "a", " a", "  a", "a ", "a  ", "Hello, world!", "Hello  world", "I'll DON'T we've It's 'ſ 'S 'LL",
    "1", "12", "123", "1234567", " 42 ", "3.14159", "a1b2", "x² ½ Ⅷ ٣", "\x00", "a\x00b", "caf\u00e9 cafe\u0301", "\U0001F600", "👨‍👩‍👧‍👦👍🏽🇩🇪",
    "\u2028\u2029\u0085x", "\u00a0x\u3000y", "\r\n\r\n x", " \n \n\n x", "<0x41>", "<s>", "</s><|im_end|>", "▁", "a\u200db", "-- ---  ----", "!!!???\n\n.",
    "ﬁ ﬀ Å ① ㍿ ｱ", "\ufeffbom", "don't", "New York\n\n\nCity", "    indented\n\tcode", "https://example.org/a?b=c&d=%20",
]


def corpus():
    rnd = random.Random(20240601)
    parts = []
    for name, text in SCRIPTS.items():
        parts.append(f"{name}: {text}\n")
    words = [w for t in SCRIPTS.values() for w in t.split()]
    for _ in range(120):
        line = " " * rnd.choice([0, 0, 0, 1, 2, 4, 7])
        for _ in range(rnd.randrange(1, 12)):
            line += rnd.choice(words) + rnd.choice([" ", " ", " ", "  ", "", ", ", "\t", " - ", "'s ", "'ll ", "\u00a0"])
        parts.append(line + rnd.choice(["\n", "\n", "\n\n", "\r\n", " \n", "\n\n\n\n"]))
    parts.append(CODE * 3)
    for n in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        parts.append("x" + " " * n + "y" + "\n" * n + "z" + "\t" * n + str(7 ** n) + "=" * n + "\n")
    emoji = ["👍🏽", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "🏳️‍🌈", "😀", "1️⃣", "👩🏿‍🚀", "\u200d", "\ufe0f"]
    for _ in range(60):
        parts.append(rnd.choice(emoji) + rnd.choice(["", " ", "a", "\n"]))
    for _ in range(60):
        parts.append(rnd.choice("aeiouncszAEIOU") + "".join(chr(rnd.randrange(0x300, 0x370)) for _ in range(rnd.randrange(1, 4))) + rnd.choice(["", " "]))
    parts.append("\nnul:\x00\x00 a\x00b \x01\x02\x1b[0m \x7f\x80\x9f\n")
    for _ in range(200):
        parts.append(str(rnd.randrange(10 ** rnd.randrange(1, 15))) + rnd.choice([" ", ",", ".", "", "\n", "%", "e-"]))
    parts.append("\n" + "\n".join(SMALL) + "\n")
    return "".join(parts)


def long_word(n=1_000_000):
    """Letters by a linear congruential generator: the test makes the same."""
    out, x = bytearray(n), 12345
    for i in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        out[i] = 97 + (x >> 16) % 26
    return out.decode()
