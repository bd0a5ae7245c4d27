"""Goldens for tests/extras/text/tokenizer_test.cpp: python3 tests/golden/make_tokenizers.py (needs tokenizers).

Makes small tokenizers of several kinds from the text below and writes each one's tokenizer.json to a line of tokenizers.txt,
"NAME json …". Then, for each of the strings, a line "NAME case [string, ids, ids without special tokens, decoded, decoded
with special tokens]".
"""

import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = [
    "The quick brown fox jumps over the lazy dog. The dog doesn't mind; it isn't quick, and it's 1234 years old.",
    "Übung macht den Meister, sagt die Mutter. Der Bär läuft über die Brücke und trifft einen Freund: \"Guten Tag!\"",
    "Le garçon a mangé une pâte à l'ail où il était assis. Nous avons fait du café, du thé et des crêpes.",
    "Быстрая лисица прыгает через ленивую собаку, и собака не лает. 北京是中国的首都。東京は日本の首都です。",
    "def forward(self, x):\n    return self.linear(x)  # a comment\n\n\tif x > 0:\n        print('positive', x)\n",
    "They've seen that we'll go, and I'm sure you'd agree they're there: 3.14159, 2,718 and 42%.",
] * 3

STRINGS = [
    "", " ", "a", "Hello world", "The quick brown fox", "  leading and trailing  ", "tabs\tand\nlines\r\n\n  mixed   runs",
    "don't won't I'LL they've it's 'quoted'", "3.14159 12345 ½ ² Ⅷ ٣٤٥", "naïve café Übung ÀÉÎ", "e\u0301a\u0308 n\u0303 combining",
    "ǅ ß ẞ İstanbul ΣΑΣ", "北京大学 東京 한국어 ﷺ", "мир и собака", "👍 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ☃️", "zero\u200bwidth\u200djoin\ufeffmark\u00adhyphen",
    "nul\u0000 bell\u0007 del\u007f c1\u0085x", "no\u00a0break\u2003em\u3000ideographic\u2028line", "\ue000private \ufffd replaced \u0378x",
    "a.b,c!d?e-f_g(h)[i]{j}<k>\\|/~`^$+=", "¿qué? «oui» — … “ ” „", "[CLS] in [MASK]  text [SEP]", "<s>begin</s> and <|end|>now",
    "x<extra>y <extra> z", "  [MASK]  ", "word" * 40, "a\u0300" * 3, "unaffable running", "\U0001d54f\U00020000 \U0002f800", "𝒳 ²x",
    "print('positive', x)\n    return  x",
]

# Exactly these: which of several equally frequent characters a trainer keeps, differs between runs.
ALPHABET = list("▁abcdefghijklmnoprstuvwxyzTHLé.,'123")

out = []


def record(name, tokenizer):
    text = json.dumps(json.loads(tokenizer.to_str()), separators=(",", ":"))
    out.append(f"{name} json {text}")
    for s in STRINGS:
        ids, plain = tokenizer.encode(s).ids, tokenizer.encode(s, add_special_tokens=False).ids
        row = [s, ids, plain, tokenizer.decode(ids), tokenizer.decode(ids, skip_special_tokens=False)]
        out.append(f"{name} case {json.dumps(row, separators=(',', ':'))}")
    print(name, tokenizer.get_vocab_size(), len(text))


gpt2 = Tokenizer(models.BPE())
gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
gpt2.decoder = decoders.ByteLevel()
gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
gpt2.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=420, special_tokens=["<|end|>"],
                                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
gpt2.add_tokens([AddedToken("<extra>", lstrip=True, rstrip=True), AddedToken("ail", single_word=True)])
record("gpt2", gpt2)

# The trainer of WordPiece gives other vocabularies in other runs.
normal, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
words = sorted({word for line in TEXT for word, _ in split.pre_tokenize_str(normal.normalize_str(line))})
letters = sorted(set("".join(words)))
tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters]
tokens += words[::3] + sorted({"##" + word[-3:] for word in words if len(word) > 4})
bert = Tokenizer(models.WordPiece({token: i for i, token in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]"))
bert.normalizer, bert.pre_tokenizer = normal, split
bert.decoder = decoders.WordPiece()
bert.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
bert.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", bert.token_to_id("[CLS]")), ("[SEP]", bert.token_to_id("[SEP]"))])
bert.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
record("bert", bert)

CASED = ["[UNK]", "[CLS]", "[SEP]", "The", "quick", "un", "##aff", "##able", "run", "##n", "##ing", "é", "##é", "ß", "北", "京", "."]
cased = Tokenizer(models.WordPiece({word: i for i, word in enumerate(CASED)}, unk_token="[UNK]", max_input_chars_per_word=12))
cased.normalizer = normalizers.BertNormalizer(lowercase=False, clean_text=False)
cased.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
cased.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
cased.decoder = decoders.WordPiece(cleanup=False)
record("bert_cased", cased)

llama = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
llama.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
llama.train_from_iterator([w for line in TEXT for w in line.split(" ")], trainers.BpeTrainer(
    vocab_size=480, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], initial_alphabet=ALPHABET, limit_alphabet=len(ALPHABET)))
# In Llama's file the bytes are tokens of the vocabulary only.
llama = json.loads(llama.to_str())
llama["added_tokens"] = llama["added_tokens"][:3]
llama = Tokenizer.from_str(json.dumps(llama))
llama.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
record("llama", llama)

# As in Llama 3: another expression, and SentencePiece's spaces in the last one.
llama3 = Tokenizer(models.BPE(ignore_merges=True))
llama3.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
                         "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
llama3.decoder = decoders.ByteLevel()
llama3.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
record("llama3", llama3)

mixed = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
mixed.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
mixed.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
mixed.decoder = decoders.Metaspace(prepend_scheme="first")
mixed.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], initial_alphabet=ALPHABET,
                                                    limit_alphabet=len(ALPHABET)))
mixed.add_tokens([AddedToken("QUICK", normalized=True), AddedToken("<s>", normalized=False)])
record("mixed", mixed)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers.txt"), "w") as file:
    file.write("\n".join(out) + "\n")
