"""Goldens for attention and for recurrent layers: python3 tests/golden/make_sequence.py (needs torch).

As in make_nn.py, data that both sides can make with `fill` are not stored: input i has key i, parameter k
has key k + 10, and the gradient of output j has key j + 100. The cases are named after those in
tests/autograd/attention_test.cpp and tests/nn/{attention,transformer,recurrent}_test.cpp.
"""

import torch
from torch import nn
import torch.nn.functional as F

import golden
from golden import fill

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
tensors = {}


def chosen(shape, key):
    """Booleans, of which about half are true."""
    return fill(shape, key) > 0


def record(name, shapes, run, module=None):
    """Outputs of run(*inputs), and the gradients of their sum weighted with `fill`."""
    if module is not None:
        for k, p in enumerate(module.parameters()):
            p.data = fill(p.shape, k + 10)
    xs = [fill(shape, i).requires_grad_() for i, shape in enumerate(shapes)]
    ys = run(*xs)
    torch.autograd.backward(ys, [fill(y.shape, j + 100) for j, y in enumerate(ys)])
    for j, y in enumerate(ys):
        tensors[f"{name}.y{j}"] = y
    for i, x in enumerate(xs):
        tensors[f"{name}.dx{i}"] = x.grad
    if module is not None:
        for key, p in module.named_parameters():
            tensors[f"{name}.d.{key}"] = p.grad


def sdpa(name, shapes, **options):
    record(f"sdpa.{name}", shapes[:3],
           lambda q, k, v: [F.scaled_dot_product_attention(q, k, v, **options)])


plain = [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)]
sdpa("plain", plain)
sdpa("matrices", [(5, 4), (3, 4), (3, 2)])
sdpa("broadcast", [(2, 3, 5, 4), (1, 7, 4), (3, 7, 6)])
sdpa("causal", plain, is_causal=True)
sdpa("causal_long", [(2, 6, 4), (2, 3, 4), (2, 3, 4)], is_causal=True)
sdpa("scale", plain, scale=0.3)
boolean = chosen((2, 1, 5, 7), 50)
boolean[:, :, 1] = False  # a query that may attend to nothing
sdpa("boolean", plain, attn_mask=boolean)
record("sdpa.floating", plain + [(5, 7)],
       lambda q, k, v, mask: [F.scaled_dot_product_attention(q, k, v, attn_mask=mask)])
grouped = [(2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 6)]
sdpa("grouped", grouped, enable_gqa=True)
sdpa("grouped_causal", grouped, enable_gqa=True, is_causal=True)
record("sdpa.grouped_mask", grouped + [(6, 5, 7)],
       lambda q, k, v, mask: [F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)])
sdpa("grouped_one", [(4, 3, 4), (1, 3, 4), (1, 3, 4)], enable_gqa=True)


def rotary(x, base=10000.0, offset=0):
    """rotate_half and the tables of Hugging Face's Llama."""
    frequency = base ** -(torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = torch.outer(torch.arange(offset, offset + x.shape[-2]).double(), frequency).repeat(1, 2)
    a, b = x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()


record("rotary.plain", [(2, 3, 5, 8)], lambda x: [rotary(x)])
record("rotary.later", [(4, 6)], lambda x: [rotary(x, base=500.0, offset=37)])


def attention(name, module, shapes, **call):
    def run(*xs):
        q, k, v = xs if len(xs) == 3 else (xs[0], xs[-1], xs[-1])
        return [y for y in module(q, k, v, **call) if y is not None]
    record(f"mha.{name}", shapes, run, module)


first = {"batch_first": True}
attention("self", nn.MultiheadAttention(4, 2), [(5, 3, 4)])
attention("self_first", nn.MultiheadAttention(4, 2, **first), [(3, 5, 4)], average_attn_weights=False)
attention("no_bias", nn.MultiheadAttention(6, 3, bias=False), [(4, 2, 6)], need_weights=False)
attention("memory", nn.MultiheadAttention(8, 4, **first), [(3, 5, 8), (3, 7, 8)])
attention("cross", nn.MultiheadAttention(4, 4), [(5, 3, 4), (7, 3, 4), (7, 3, 4)])
attention("unbatched", nn.MultiheadAttention(4, 4, **first), [(5, 4), (7, 4)],
          key_padding_mask=chosen((7,), 60))
padding = torch.zeros((3, 7), dtype=torch.bool)
padding[1, 4:] = True
padding[2, 6:] = True
attention("padding", nn.MultiheadAttention(4, 2, **first), [(3, 5, 4), (3, 7, 4)], key_padding_mask=padding,
          attn_mask=fill((5, 7), 61))
heads = chosen((6, 5, 7), 62)
heads[:, :, 0] = False  # so that each query has at least one key
attention("each_head", nn.MultiheadAttention(4, 2, **first), [(3, 5, 4), (3, 7, 4)], attn_mask=heads)
causal = torch.ones((5, 5), dtype=torch.bool).triu(1)
attention("causal", nn.MultiheadAttention(4, 2, **first), [(3, 5, 4)], attn_mask=causal, is_causal=True,
          need_weights=False)
causal_padding = torch.zeros((3, 5), dtype=torch.bool)
causal_padding[1, 3:] = True
attention("causal_padding", nn.MultiheadAttention(4, 2, **first), [(3, 5, 4)], attn_mask=causal, is_causal=True,
          key_padding_mask=causal_padding)
attention("other_sizes", nn.MultiheadAttention(4, 2, kdim=3, vdim=5), [(5, 2, 4), (6, 2, 3), (6, 2, 5)], key_padding_mask=chosen((2, 6), 66))
attention("extra_keys", nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, **first), [(3, 5, 4)], attn_mask=causal,
          is_causal=True, key_padding_mask=causal_padding)
attention("bias_kv", nn.MultiheadAttention(4, 2, add_bias_kv=True, bias=False, kdim=3), [(5, 4), (6, 3), (6, 4)])
attention("zero_attn", nn.MultiheadAttention(4, 2, add_zero_attn=True), [(4, 2, 4)], attn_mask=fill((4, 4), 61))
attention("dropped", nn.MultiheadAttention(4, 2, dropout=1.0), [(5, 3, 4)])


def transformer(name, module, shape, train=True, **masks):
    module.train(train)
    record(f"transformer.{name}", [shape], lambda x: [module(x, **masks)], module)


layer = nn.TransformerEncoderLayer
transformer("post", layer(4, 2, 5, dropout=0.0), (5, 3, 4))
transformer("pre", layer(4, 2, 5, dropout=0.0, activation="gelu", batch_first=True, norm_first=True,
                         layer_norm_eps=1e-3), (3, 5, 4), src_mask=causal, is_causal=True)
transformer("no_bias", layer(4, 2, 5, dropout=0.0, bias=False), (5, 3, 4))
transformer("evaluated", layer(4, 2, 5, dropout=0.5, batch_first=True), (3, 5, 4), train=False,
            src_mask=fill((5, 5), 61), src_key_padding_mask=torch.where(causal_padding, -torch.inf, 0.0))
transformer("dropped", layer(4, 2, 5, dropout=1.0), (5, 3, 4))
transformer("encoder", nn.TransformerEncoder(layer(4, 2, 5, dropout=0.0, batch_first=True, norm_first=True), 2,
                                             norm=nn.LayerNorm(4), enable_nested_tensor=False), (3, 5, 4),
            mask=causal, is_causal=True)
transformer("encoder_plain", nn.TransformerEncoder(layer(4, 4, 6, dropout=0.0), 3), (5, 2, 4))


decoder_layer = nn.TransformerDecoderLayer
mask_of_memory, memory_padding = chosen((5, 4), 63), torch.zeros((3, 4), dtype=torch.bool)
mask_of_memory[:, 0] = False  # so that each element sees some of the memory
memory_padding[2, 2:] = True


def decoder(name, module, shapes, train=True, **masks):
    module.train(train)
    record(f"transformer.{name}", shapes, lambda x, memory: [module(x, memory, **masks)], module)


decoder("decoder_post", decoder_layer(4, 2, 5, dropout=0.0), [(5, 3, 4), (4, 3, 4)])
decoder("decoder_pre", decoder_layer(4, 2, 5, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, layer_norm_eps=1e-3),
        [(3, 5, 4), (3, 4, 4)], tgt_mask=causal, tgt_is_causal=True, memory_mask=mask_of_memory)
decoder("decoder_padding", decoder_layer(4, 2, 5, dropout=0.5, batch_first=True, bias=False), [(3, 5, 4), (3, 4, 4)], train=False,
        tgt_mask=fill((5, 5), 61), tgt_key_padding_mask=causal_padding, memory_key_padding_mask=memory_padding,
        memory_mask=fill((6, 5, 4), 64))
decoder("decoder_unbatched", decoder_layer(4, 2, 5, dropout=0.0), [(5, 4), (4, 4)])
decoder("decoder", nn.TransformerDecoder(decoder_layer(4, 2, 5, dropout=0.0, batch_first=True), 2, norm=nn.LayerNorm(4)),
        [(3, 5, 4), (3, 4, 4)], tgt_mask=causal, tgt_is_causal=True)
small = {"num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 3, "dropout": 0.0}
decoder("both", nn.Transformer(4, 2, batch_first=True, **small), [(3, 4, 4), (3, 5, 4)], src_mask=chosen((4, 4), 65) & ~torch.eye(4).bool(),
        tgt_mask=causal, memory_mask=mask_of_memory, src_key_padding_mask=torch.where(memory_padding, -torch.inf, 0.0),
        tgt_key_padding_mask=torch.where(causal_padding, -torch.inf, 0.0), memory_key_padding_mask=memory_padding, tgt_is_causal=True)
decoder("both_pre", nn.Transformer(4, 2, norm_first=True, activation="gelu", bias=False, **small), [(4, 3, 4), (5, 3, 4)])


def cell(name, make, shape, states, **options):
    """make: nn.RNNCell, nn.LSTMCell or nn.GRUCell; states: their shape, or None."""
    module, kind = make(4, 3, **options), make.__name__.lower()
    count = (2 if kind == "lstmcell" else 1) if states else 0

    def run(x, *given):
        after = module(x, None if not given else given if kind == "lstmcell" else given[0])
        return list(after) if kind == "lstmcell" else [after]
    record(f"{kind}.{name}", [shape] + [states] * count, run, module)


for make in (nn.RNNCell, nn.LSTMCell, nn.GRUCell):
    cell("plain", make, (2, 4), (2, 3))
    cell("unbatched", make, (4,), (3,), bias=False)
    cell("no_state", make, (2, 4), None)
cell("relu", nn.RNNCell, (2, 4), (2, 3), nonlinearity="relu")


def recurrent(name, make, shape, states=None, train=True, lengths=None, **options):
    """make: nn.RNN, nn.LSTM or nn.GRU; states: the shape of h, if they are given; lengths: of packed sequences."""
    kind = make.__name__.lower()
    module = make(4, 3, **options).train(train)
    count = (2 if kind == "lstm" else 1) if states else 0
    cells = [states[:-1] + (3,)] if states and kind == "lstm" else []
    first = options.get("batch_first", False)

    def run(x, *given):
        given = None if not given else given if kind == "lstm" else given[0]
        if lengths:
            x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first, enforce_sorted=False)
        y, last = module(x, given)
        if lengths:
            y = nn.utils.rnn.pad_packed_sequence(y, batch_first=first, total_length=shape[1 if first else 0])[0]
        return [y, *last] if kind == "lstm" else [y, last]
    record(f"{kind}.{name}", [shape] + [states] * min(count, 1) + cells, run, module)


for make in (nn.LSTM, nn.GRU, nn.RNN):
    recurrent("plain", make, (5, 2, 4))
    recurrent("states", make, (5, 2, 4), (1, 2, 3))
    recurrent("no_bias", make, (3, 2, 4), bias=False)
    recurrent("one_step", make, (1, 2, 4), (1, 2, 3))
    recurrent("deep", make, (2, 5, 4), (2, 2, 3), num_layers=2, batch_first=True)
    recurrent("both_ways", make, (4, 2, 4), (4, 2, 3), num_layers=2, bidirectional=True)
    recurrent("unbatched", make, (4, 4), (2, 3), bidirectional=True, batch_first=True)
    recurrent("dropped", make, (3, 2, 4), num_layers=2, dropout=1.0)
    recurrent("evaluated", make, (3, 2, 4), train=False, num_layers=2, dropout=0.5)
    recurrent("lengths", make, (4, 3, 4), (1, 3, 3), lengths=[2, 4, 1])
    recurrent("lengths_both_ways", make, (3, 5, 4), (4, 3, 3), lengths=[3, 1, 4], num_layers=2, bidirectional=True, batch_first=True)
recurrent("relu", nn.RNN, (3, 2, 4), num_layers=2, nonlinearity="relu")
recurrent("projected", nn.LSTM, (3, 2, 4), (4, 2, 2), num_layers=2, bidirectional=True, proj_size=2)
recurrent("projected_lengths", nn.LSTM, (3, 2, 4), (2, 2, 1), lengths=[1, 3], num_layers=2, proj_size=1, batch_first=False)

golden.write("sequence.txt", tensors)
