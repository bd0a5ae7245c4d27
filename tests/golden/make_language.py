"""Goldens for language models: python3 tests/golden/make_language.py (needs torch).

The models of Hugging Face as functions of their state dicts, with its keys and layouts. If `transformers` is
installed, its GPT2LMHeadModel, LlamaForCausalLM and BertModel must agree. Parameter k is fill(shape, k + 10), times 1/4 and
plus 1 for the weights of norms. The cases are named after those in tests/nn/{bert,generate,gpt2,llama}_test.cpp.
"""

import math

import torch
import torch.nn.functional as F

import golden
from golden import fill

try:
    import transformers
except ImportError:
    transformers = None

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
tensors = {}
TOKENS = (fill((2, 7), 1) * 20 + 20).long()


def parameters(shapes):
    """Filled parameters that need gradients, by key; norms have one dimension."""
    return {key: (fill(shape, k + 10, 0.25, 1.0 if len(shape) == 1 and key.endswith("weight") else 0.0)
                  if len(shape) == 1 else fill(shape, k + 10, 0.5)).requires_grad_()
            for k, (key, shape) in enumerate(shapes.items())}


def heads(x, n):
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def causal(q, k, v):
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def gpt2_shapes(vocabulary, positions, width, layers):
    shapes = {"transformer.wte.weight": (vocabulary, width), "transformer.wpe.weight": (positions, width)}
    for i in range(layers):
        for name, sizes in (("ln_1", (width,)), ("attn.c_attn", (width, 3 * width)), ("attn.c_proj", (width, width)),
                            ("ln_2", (width,)), ("mlp.c_fc", (width, 4 * width)), ("mlp.c_proj", (4 * width, width))):
            shapes[f"transformer.h.{i}.{name}.weight"] = sizes
            shapes[f"transformer.h.{i}.{name}.bias"] = sizes[-1:]
    return shapes | {"transformer.ln_f.weight": (width,), "transformer.ln_f.bias": (width,)}


def gpt2(p, tokens, layers, n_head):
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])

    def affine(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:tokens.shape[1]]
    for i in range(layers):
        at = f"transformer.h.{i}."
        q, k, v = (heads(part, n_head) for part in affine(norm(x, at + "ln_1"), at + "attn.c_attn").chunk(3, -1))
        x = x + affine(causal(q, k, v), at + "attn.c_proj")
        wide = F.gelu(affine(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
        x = x + affine(wide, at + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].T


def llama_shapes(vocabulary, width, wide, layers, q_width, kv_width, tied):
    shapes = {"model.embed_tokens.weight": (vocabulary, width)}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {at + "self_attn.q_proj.weight": (q_width, width), at + "self_attn.k_proj.weight": (kv_width, width),
                   at + "self_attn.v_proj.weight": (kv_width, width), at + "self_attn.o_proj.weight": (width, q_width),
                   at + "mlp.gate_proj.weight": (wide, width), at + "mlp.up_proj.weight": (wide, width),
                   at + "mlp.down_proj.weight": (width, wide), at + "input_layernorm.weight": (width,),
                   at + "post_attention_layernorm.weight": (width,)}
    shapes["model.norm.weight"] = (width,)
    return shapes if tied else shapes | {"lm_head.weight": (vocabulary, width)}


def llama(p, tokens, layers, head_dim, base):
    def norm(x, name):
        return p[name + ".weight"] * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))

    def rotary(x):
        frequency = base ** -(torch.arange(0, head_dim, 2) / head_dim)
        angle = torch.outer(torch.arange(x.shape[-2]).double(), frequency).repeat(1, 2)
        a, b = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    x = p["model.embed_tokens.weight"][tokens]
    for i in range(layers):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm")
        q, k, v = (heads(part, part.shape[-1] // head_dim)
                   for part in (h @ p[f"{at}self_attn.{c}_proj.weight"].T for c in "qkv"))
        x = x + causal(rotary(q), rotary(k), v) @ p[at + "self_attn.o_proj.weight"].T
        h = norm(x, at + "post_attention_layernorm")
        gated = F.silu(h @ p[at + "mlp.gate_proj.weight"].T) * (h @ p[at + "mlp.up_proj.weight"].T)
        x = x + gated @ p[at + "mlp.down_proj.weight"].T
    return norm(x, "model.norm") @ p.get("lm_head.weight", p["model.embed_tokens.weight"]).T


def record(name, p, run, peer):
    """The logits, the gradients of their sum weighted with `fill`, each as its norm and its product with a fixed
    vector, and twelve greedy tokens."""
    logits = run(p, TOKENS)
    logits.backward(fill(logits.shape, 100))
    tensors[name + ".logits"] = logits
    for k, (key, x) in enumerate(p.items()):
        tensors[f"{name}.d.{key}"] = torch.stack([x.grad.norm(), (x.grad * fill(x.shape, k + 5000)).sum()])
    text = TOKENS[:, :4]
    for _ in range(12):
        text = torch.cat([text, run(p, text)[:, -1:].argmax(-1)], 1)
    tensors[name + ".greedy"] = text
    if transformers:
        peer = peer().eval()
        report = peer.load_state_dict(p, strict=False)
        assert set(report.missing_keys) <= {"lm_head.weight"} and not report.unexpected_keys, report
        peer.tie_weights()
        # Its tables of positions are in f32.
        torch.testing.assert_close(peer(TOKENS).logits, logits, rtol=1e-5, atol=1e-5)
        found = peer.generate(TOKENS[:, :4], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert torch.equal(found, text), (found, text)
        print(name, "agrees with transformers", transformers.__version__)


record("gpt2", parameters(gpt2_shapes(40, 16, 16, 2)), lambda p, x: gpt2(p, x, 2, 2),
       lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(
           vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)))


def peer_llama(**options):
    return lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, **options))


record("llama", parameters(llama_shapes(40, 16, 24, 2, 16, 8, False)), lambda p, x: llama(p, x, 2, 4, 10000.0),
       peer_llama(num_attention_heads=4, num_key_value_heads=2))
record("llama_tied", parameters(llama_shapes(40, 16, 24, 2, 12, 12, True)), lambda p, x: llama(p, x, 2, 6, 500.0),
       peer_llama(num_attention_heads=2, head_dim=6, tie_word_embeddings=True,
                  rope_parameters={"rope_type": "default", "rope_theta": 500.0}))


def bert_shapes(vocabulary, positions, width, wide, layers):
    shapes = {"embeddings.word_embeddings.weight": (vocabulary, width),
              "embeddings.position_embeddings.weight": (positions, width),
              "embeddings.token_type_embeddings.weight": (2, width)}

    def add(name, *sizes):
        shapes[name + ".weight"] = sizes
        shapes[name + ".bias"] = sizes[:1]

    add("embeddings.LayerNorm", width)
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{at}attention.{name}", width, width)
        add(at + "attention.output.LayerNorm", width)
        add(at + "intermediate.dense", wide, width)
        add(at + "output.dense", width, wide)
        add(at + "output.LayerNorm", width)
    add("pooler.dense", width, width)
    return shapes


def bert(p, tokens, types, mask, layers, n_head):
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], eps=1e-12)

    def affine(x, name):
        return x @ p[name + ".weight"].T + p[name + ".bias"]

    x = (F.embedding(tokens, p["embeddings.word_embeddings.weight"], padding_idx=0)
         + p["embeddings.token_type_embeddings.weight"][types]
         + p["embeddings.position_embeddings.weight"][:tokens.shape[1]])
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        q, k, v = (heads(affine(x, f"{at}attention.self.{name}"), n_head) for name in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None]).transpose(1, 2).flatten(2)
        x = norm(x + affine(y, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        y = affine(F.gelu(affine(x, at + "intermediate.dense")), at + "output.dense")
        x = norm(x + y, at + "output.LayerNorm")
    return x, affine(x[:, 0], "pooler.dense").tanh()


p = parameters(bert_shapes(40, 10, 16, 24, 2))
tokens = TOKENS.clone()
tokens[1, 5:] = 0
types = (torch.arange(7) > 2).long().expand(2, 7)
outputs = bert(p, tokens, types, tokens != 0, 2, 4)
torch.autograd.backward(outputs, [fill(y.shape, 100 + j) for j, y in enumerate(outputs)])
tensors["bert.hidden"], tensors["bert.pooled"] = outputs
for k, (key, x) in enumerate(p.items()):
    tensors[f"bert.d.{key}"] = torch.stack([x.grad.norm(), (x.grad * fill(x.shape, k + 5000)).sum()])
tensors["bert.plain"] = bert(p, TOKENS, 0 * TOKENS, TOKENS >= 0, 2, 4)[0]
if transformers:
    peer = transformers.BertModel(transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=10)).eval()
    peer.load_state_dict(p)
    found = peer(tokens, token_type_ids=types, attention_mask=(tokens != 0).long())
    torch.testing.assert_close((found.last_hidden_state, found.pooler_output), outputs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(peer(TOKENS).last_hidden_state, tensors["bert.plain"], rtol=1e-9, atol=1e-9)
    print("bert agrees with transformers", transformers.__version__)


def kept(name, logits, top_k=0, top_p=1.0):
    """Which tokens the filters of Hugging Face's generate keep."""
    peer = logits
    if transformers:
        peer = transformers.TopKLogitsWarper(top_k)(None, peer) if top_k else peer
        peer = transformers.TopPLogitsWarper(top_p)(None, peer) if top_p < 1 else peer
    if top_k:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -math.inf)
    if top_p < 1:
        ascending, order = logits.sort(dim=-1)
        excluded = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
        excluded[:, -1] = False
        logits = logits.masked_fill(excluded.scatter(1, order, excluded), -math.inf)
    assert not transformers or torch.equal(logits, peer)
    tensors[f"kept.{name}"] = logits > -math.inf


logits = fill((4, 12), 3, 3.0)
kept("top_k", logits, top_k=3)
kept("top_k_ties", logits.round(), top_k=4)
kept("top_p", logits, top_p=0.7)
kept("top_p_small", logits, top_p=1e-3)
kept("both", logits, top_k=5, top_p=0.6)

golden.write("language.txt", tensors)
