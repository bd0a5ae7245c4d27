"""Goldens for tests/autograd/composed_loss_test.cpp: python3 tests/golden/make_losses.py (needs torch)."""

import torch
import torch.nn.functional as F

import golden
from golden import fill

torch.set_num_threads(1)
out = {}
x, y, z = fill((3, 4), 0, 2), fill((3, 4), 2, 2), fill((3, 4), 3, 2)
p, q = (fill((3, 4), 4) + 1) / 2, (fill((3, 4), 5) + 1) / 2
signs, row_signs = torch.sign(y), torch.tensor([1.0, -1, 1], dtype=torch.float64)
counts = torch.tensor([[0, 1, 2, 3], [5, 0, 1, 9], [4, 2, 0, 1]], dtype=torch.float64)
classes, row = torch.tensor([2, 0, 3]), torch.tensor([0.5, 2, 1, 0.25], dtype=torch.float64)
lists = torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]])
image, image_q = fill((2, 3, 2, 2), 6, 3), F.softmax(fill((2, 3, 2, 2), 7, 3), 1)
soft, var, row_var = F.softmax(y, 1), p + 0.1, (fill((3,), 8) + 1) / 2

for r in ("none", "mean"):
    def case(name, f, *inputs, **options):
        golden.case(out, f"{name}.{r}", lambda *xs: f(*xs, reduction=r, **options), *inputs)

    case("cross_entropy.soft", F.cross_entropy, x, soft)
    case("cross_entropy.soft_all", F.cross_entropy, x, soft, weight=row, label_smoothing=0.2)
    case("cross_entropy.soft_image", F.cross_entropy, image, image_q, label_smoothing=0.1)
    case("bce_with_logits.weight", F.binary_cross_entropy_with_logits, 5 * x, q, weight=row)
    case("bce_with_logits.pos_weight", F.binary_cross_entropy_with_logits, 5 * x, q, pos_weight=row)
    case("bce_with_logits.all", F.binary_cross_entropy_with_logits, 5 * x, q, weight=p, pos_weight=row * 3)
    case("binary_cross_entropy", F.binary_cross_entropy, p, q)
    case("binary_cross_entropy.weight", F.binary_cross_entropy, p, q, weight=row)
    case("huber_loss", F.huber_loss, x, y)
    case("huber_loss.delta", F.huber_loss, x, y, delta=0.4)
    case("poisson_nll_loss", F.poisson_nll_loss, x, counts)
    # Counts without a gradient: PyTorch's is NaN where a count is 0.
    case("poisson_nll_loss.full", lambda p, **o: F.poisson_nll_loss(p, counts, log_input=False, full=True, eps=1e-3, **o), p)
    case("gaussian_nll_loss", F.gaussian_nll_loss, x, y, var)
    case("gaussian_nll_loss.full", F.gaussian_nll_loss, x, y, row_var, full=True, eps=0.3)
    case("gaussian_nll_loss.column", F.gaussian_nll_loss, x, y, row_var[:, None])
    case("margin_ranking_loss", lambda a, b, **o: F.margin_ranking_loss(a, b, signs, **o), x, y)
    case("margin_ranking_loss.margin", lambda a, b, **o: F.margin_ranking_loss(a, b, signs, margin=0.5, **o), x, z)
    case("hinge_embedding_loss", lambda x, **o: F.hinge_embedding_loss(x, signs, **o), x)
    case("hinge_embedding_loss.margin", lambda x, **o: F.hinge_embedding_loss(x, signs, margin=0.3, **o), x)
    case("cosine_embedding_loss", lambda a, b, **o: F.cosine_embedding_loss(a, b, row_signs, **o), x, y)
    case("cosine_embedding_loss.margin", lambda a, b, **o: F.cosine_embedding_loss(a, b, -row_signs, margin=0.2, **o), x, y)
    case("multi_margin_loss", F.multi_margin_loss, x, classes)
    case("multi_margin_loss.all", F.multi_margin_loss, x, classes, p=2, margin=0.7, weight=row)
    case("multi_margin_loss.one", F.multi_margin_loss, x[0], classes[0])
    case("multilabel_margin_loss", F.multilabel_margin_loss, x, lists)
    case("multilabel_margin_loss.one", F.multilabel_margin_loss, x[0], lists[0])
    case("soft_margin_loss", lambda x, **o: F.soft_margin_loss(x, signs, **o), x)
    case("multilabel_soft_margin_loss", F.multilabel_soft_margin_loss, x, q, weight=row)
    case("triplet_margin_loss", F.triplet_margin_loss, x, y, z)
    case("triplet_margin_loss.all", F.triplet_margin_loss, x, y, z, margin=2, p=3, eps=1e-3, swap=True)
    case("triplet_margin_with_distance_loss", F.triplet_margin_with_distance_loss, x, y, z, swap=True, margin=0.5,
         distance_function=lambda a, b: 1 - F.cosine_similarity(a, b))
golden.case(out, "pairwise_distance", F.pairwise_distance, x, y)
golden.case(out, "pairwise_distance.all", lambda a, b: F.pairwise_distance(a, b, p=1, eps=0.1, keepdim=True), x, y)
golden.case(out, "pairwise_distance.row", F.pairwise_distance, x, y[0])

# Through log_softmax: PyTorch's gradient for log_probs is that for the logits before it.
logits = fill((6, 3, 4), 9, 2)
padded, steps, labels = torch.tensor([[1, 1, 3], [2, 9, 9], [9, 9, 9]]), torch.tensor([6, 4, 3]), torch.tensor([3, 1, 0])
for name, f in {
        "none": lambda x: F.ctc_loss(x, padded, steps, labels, reduction="none"),
        "mean": lambda x: F.ctc_loss(x, padded, steps, labels), "sum": lambda x: F.ctc_loss(x, padded, steps, labels, reduction="sum"),
        "joined": lambda x: F.ctc_loss(x, torch.tensor([0, 1, 3, 0, 0, 1]), torch.tensor([5, 6, 4]), torch.tensor([2, 3, 1]), blank=2),
        "unreachable": lambda x: F.ctc_loss(x, torch.tensor([1, 1, 1, 2]), torch.tensor([4, 0, 0]), torch.tensor([3, 1, 0]),
                                            reduction="none", zero_infinity=True),
        "one": lambda x: F.ctc_loss(x[:, 0], torch.tensor([3, 1]), torch.tensor(5), torch.tensor(2), reduction="none"),
}.items():
    golden.case(out, f"ctc_loss.{name}", lambda x: f(x.log_softmax(2)), logits)
golden.write("losses.txt", out)
