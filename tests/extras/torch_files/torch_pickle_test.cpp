// Files of torch.save: what Python wrote in each form, errors, and round trips.

#include "extras/torch_files/torch_pickle.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "data/open.h"
#include "data/transforms.h"
#include "dist/launch/init.h"
#include "extras/torch_files/pickle.h"
#include "io/atomic_file.h"
#include "io/weights.h"
#include "io/zip.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/mnist_cnn.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "train/evaluate.h"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// A file that PyTorch wrote (tests/golden/make_torch_files.py).
std::string file(const std::string& name) {
  return test::golden_bytes("torch_files_hex.txt", name);
}

io::TorchFile parse_pickle(const std::string& bytes, const io::TorchFileOptions& options = {}) {
  return io::parse_torch(std::as_bytes(std::span(bytes)), "weights.pth", options);
}

std::string pickle_refusal(const std::string& bytes, const io::TorchFileOptions& options = {}) {
  return test::message_of<IoError>([&] { parse_pickle(bytes, options); });
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         (x.numel() == 0 ||
          std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<std::size_t>(x.nbytes())) == 0);
}

const Tensor& find(const nn::StateDict& tensors, const std::string& name) {
  for (const auto& entry : tensors) {
    if (entry.name == name) return entry.tensor;
  }
  throw Error("missing tensor: " + name);
}

std::string names(const nn::StateDict& tensors) {
  std::string all;
  for (const auto& entry : tensors) all += (all.empty() ? "" : " ") + entry.name;
  return all;
}

std::vector<std::string> sentences(const std::vector<io::LeftOut>& left_out) {
  std::vector<std::string> all;
  for (const auto& [name, why] : left_out) all.push_back(concat(name, ": ", why));
  return all;
}

/// Equal including the sign of zero, and NaN only where the other has NaN.
bool same_numbers(const Tensor& a, const Tensor& b) {
  const auto x = a.contiguous().to_vector<double>(), y = b.contiguous().to_vector<double>();
  return std::ranges::equal(x, y, [](double u, double v) {
    return std::isnan(u) ? std::isnan(v) : u == v && std::signbit(u) == std::signbit(v);
  });
}

void expect_golden(const nn::StateDict& tensors) {
  const test::Golden golden("torch_files.txt");
  EXPECT_EQ(tensors.size(), 15u);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bits(tensor, golden[name])) << name;
}

TEST(TorchPickle, ReadsEveryForm) {
  EXPECT_EQ(parse_pickle(file("legacy_protocol4")).tensors.size(), 1u);
  for (const char* form : {"zip", "legacy", "rezipped"}) {
    SCOPED_TRACE(form);
    const io::TorchFile read = parse_pickle(file(form));
    expect_golden(read.tensors);
    EXPECT_EQ(read.tensors.front().name, "f64");
    EXPECT_EQ(read.entry, "");
    // Views of one storage in Python are views of one storage here.
    const Tensor slice = find(read.tensors, "slice"), strided = find(read.tensors, "strided");
    EXPECT_EQ(slice.storage(), strided.storage());
    EXPECT_EQ(slice.storage_offset(), 4);
    EXPECT_EQ(strided.strides(), (Dims{6, 2}));
    EXPECT_EQ(find(read.tensors, "transposed").strides(), (Dims{1, 3}));
  }
  const io::TorchFile newer = parse_pickle(file("protocol4"));
  ASSERT_EQ(newer.tensors.size(), 1u);
  EXPECT_TRUE(test::all_close(newer.tensors[0].tensor,
                              find(parse_pickle(file("zip")).tensors, "f32") * 3.0, 1e-2));
}

TEST(TorchPickle, ReadsAFileWithoutChecksums) {
  const io::TorchFile read = parse_pickle(file("no_crc32"));
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_TRUE(test::all_close(read.tensors[0].tensor,
                              find(parse_pickle(file("zip")).tensors, "f32") * 3.0, 1e-2));
}

TEST(TorchPickle, FindsTheStateDictOfACheckpoint) {
  for (const char* form : {"checkpoint", "checkpoint_legacy"}) {
    SCOPED_TRACE(form);
    const io::TorchFile read = parse_pickle(file(form));
    expect_golden(read.tensors);
    EXPECT_EQ(read.entry, "state_dict");
    EXPECT_THAT(read.metadata, ElementsAre(Pair("arch", "resnet20"), Pair("best_prec1", "91.5"),
                                           Pair("done", "True"), Pair("epoch", "90")));
    EXPECT_THAT(read.others, ElementsAre("optimizer"));
    const io::TorchFile state = parse_pickle(file(form), {.entry = "state_dict"});
    EXPECT_EQ(state.tensors.size(), read.tensors.size());
  }
  // In the checkpoints of PyTorch's own examples the best accuracy so far is a tensor too.
  EXPECT_EQ(parse_pickle(file("best_beside")).entry, "state_dict");
  EXPECT_THAT(pickle_refusal(file("nested_beside")),
              HasSubstr("several dicts of tensors, the outer one, ema"));
  EXPECT_EQ(parse_pickle(file("nested_beside"), {.entry = "."}).tensors.at(0).name, "b");
  EXPECT_EQ(parse_pickle(file("schedule")).tensors.size(),
            1u);  // with a collections.Counter next to it
  EXPECT_THAT(pickle_refusal(file("two")),
              HasSubstr("weights.pth: has several dicts of tensors, ema, raw; "
                        "say which one is meant"));
  EXPECT_EQ(parse_pickle(file("two"), {.entry = "raw"}).tensors.size(), 1u);
  EXPECT_THAT(pickle_refusal(file("two"), {.entry = "best"}), HasSubstr("has no dict best"));
}

// rondo calls nothing, so the names in a file are harmless, whatever Python would do with them.
TEST(TorchPickle, ReadsTensorsBesideForeignNames) {
  for (const char* form : {"evil", "evil_legacy"}) {
    const io::TorchFile read = parse_pickle(file(form));
    EXPECT_EQ(names(read.tensors), "w");
    EXPECT_THAT(read.metadata, ElementsAre(Pair("e", "<posix.system>")));
  }
  const test::Golden golden("torch_files.txt");
  for (const char* form : {"foreign_names", "foreign_names_legacy", "foreign_names_protocol5"}) {
    SCOPED_TRACE(form);
    const io::TorchFile read = parse_pickle(file(form));
    EXPECT_EQ(names(read.tensors), "w noted attribute");
    EXPECT_TRUE(test::all_close(find(read.tensors, "noted"), find(read.tensors, "w") * 2.0, 0));
    EXPECT_TRUE(test::all_close(find(read.tensors, "attribute"), find(read.tensors, "w") * 3.0, 0));
    EXPECT_THAT(read.metadata, IsSupersetOf({Pair("args", "<argparse.Namespace>"),
                                             Pair("when", "<datetime.datetime>"),
                                             Pair("fn", "<functools.partial>")}));
    // A numpy array may be weights, so it is reported as left out.
    EXPECT_THAT(sentences(read.left_out),
                ElementsAre("array: it is next to state_dict, which was read"));
  }
}

TEST(TorchPickle, ReadsDtypesThatHaveAnExactFormHere) {
  const test::Golden golden("torch_files.txt");
  for (const char* form : {"foreign_dtypes", "foreign_dtypes_legacy"}) {
    SCOPED_TRACE(form);
    const io::TorchFile read = parse_pickle(file(form));
    EXPECT_EQ(read.tensors.size(), 13u);
    EXPECT_THAT(sentences(read.left_out), IsEmpty());
    for (const auto& [name, tensor] : read.tensors) {
      const Tensor expected = golden[name];
      EXPECT_EQ(tensor.dtype(), expected.dtype()) << name;
      EXPECT_EQ(tensor.shape(), expected.shape()) << name;
      EXPECT_TRUE(same_numbers(tensor, expected)) << name;
    }
    EXPECT_EQ(find(read.tensors, "i16.rows").storage(),
              find(read.tensors, "i16.strided").storage());
  }
}

TEST(TorchPickle, ATensorThatCannotBeReadIsLeftOut) {
  const io::TorchFile read = parse_pickle(file("unreadable"));
  EXPECT_EQ(names(read.tensors), "w");
  EXPECT_THAT(
      sentences(read.left_out),
      UnorderedElementsAre(
          HasSubstr("quantised: it is made by torch._utils._rebuild_qtensor"),
          HasSubstr("sparse: it is made by torch._utils._rebuild_sparse_tensor"),
          HasSubstr("u64_large: it is of torch.uint64, and its storage has numbers of 2^63"),
          HasSubstr("nine: it has 9 dimensions"),
          HasSubstr("f4: it is of torch.float4_e2m1fn_x2, a dtype that rondo lacks"),
          HasSubstr("expanded: its sizes [64] and strides [0] repeat the 1 elements"),
          HasSubstr("negated: it is marked as a lazy negation")));
  // If it is the only tensor, that is an error.
  EXPECT_THAT(pickle_refusal(file("negated")),
              HasSubstr("weights.pth: holds no tensors that can be read: w: it is marked as a lazy "
                        "negation"));
  EXPECT_THAT(pickle_refusal(file("expanded")), HasSubstr("holds no tensors that can be read"));
  const Tensor empty = parse_pickle(file("empty_slice")).tensors.at(0).tensor;
  EXPECT_EQ(empty.shape(), (Dims{0, 0}));
  EXPECT_EQ(empty.storage_offset(), 0);
}

TEST(TorchPickle, DictsInDictsBecomeNamesWithDots) {
  const io::TorchFile read = parse_pickle(file("nested"));
  EXPECT_EQ(names(read.tensors), "encoder.layers.0 encoder.layers.1 encoder.pair.0 w head.b 7.x");
  EXPECT_TRUE(test::all_close(find(read.tensors, "7.x"), find(read.tensors, "w") + 2.0, 1e-4));
  EXPECT_EQ(names(parse_pickle(file("nested"), {.entry = "state_dict.encoder"}).tensors),
            "layers.0 layers.1 pair.0");
  EXPECT_EQ(names(parse_pickle(file("one_deep")).tensors), "body.w") << "the optimizer's apart";
  EXPECT_EQ(names(parse_pickle(file("one_deep"), {.entry = "optimizer"}).tensors), "state.0.m");
  EXPECT_EQ(names(parse_pickle(file("list_beside")).tensors), "w");
  EXPECT_EQ(names(parse_pickle(file("lists")).tensors), "params.0 params.1");
  EXPECT_EQ(names(parse_pickle(file("optimizer")).tensors), "0.m") << "alone it is read";
  EXPECT_THAT(pickle_refusal(file("two_deep")),
              HasSubstr("has several dicts of tensors, G, D; say which one is meant, or \".\" for "
                        "all of them (--entry of rondo-weights, TorchFileOptions::entry)"));
  EXPECT_EQ(names(parse_pickle(file("two_deep"), {.entry = "."}).tensors), "G.w D.body.w");
  EXPECT_THAT(pickle_refusal(file("colliding"), {.entry = "."}),
              HasSubstr("has two tensors called a.b"));
  EXPECT_THAT(pickle_refusal(file("circle"), {.entry = "."}),
              HasSubstr("weights.pth: holds more than its size allows: its dictionaries contain "
                        "each other"));
  EXPECT_THAT(sentences(parse_pickle(file("best_beside")).left_out),
              ElementsAre("best_acc1: it is next to state_dict, which was read"));
}

TEST(TorchPickle, RefusesWhatIsNoStateDict) {
  const char* advice =
      "(torch.nn.modules.linear.Linear), which only Python can load; save its weights "
      "there: torch.save(model.state_dict(), PATH)";
  for (const char* form : {"module", "module_legacy"}) {
    EXPECT_THAT(pickle_refusal(file(form)),
                AllOf(HasSubstr("weights.pth: is a whole model "), HasSubstr(advice)));
  }
  EXPECT_THAT(pickle_refusal(file("module_inside")),
              AllOf(HasSubstr("weights.pth: model is a whole model "), HasSubstr(advice)));
  EXPECT_THAT(parse_pickle(file("module_beside"), {.entry = "ema"}).tensors.size(), 1u);
  EXPECT_THAT(pickle_refusal(file("list")), HasSubstr("holds no dict of tensors"));
  EXPECT_THAT(pickle_refusal(file("nothing")), HasSubstr("holds no tensors"));
  EXPECT_THAT(pickle_refusal(file("bare_pickle")), HasSubstr("weights.pth: is a pickle"));
  EXPECT_THAT(pickle_refusal(file("torchscript")),
              HasSubstr("weights.pth: is a TorchScript archive, a program; in Python, save its "
                        "weights: torch.save(torch.jit.load(FILE).state_dict(), PATH)"));
  EXPECT_THAT(pickle_refusal(""), HasSubstr("weights.pth: is empty"));
  EXPECT_THAT(pickle_refusal("PK"), HasSubstr("weights.pth: "));
  EXPECT_THAT(test::message_of<IoError>([] { io::load_torch("/nowhere/weights.pth"); }),
              HasSubstr("cannot read /nowhere/weights.pth: No such file"));
}

// Small files that declare large sizes.
TEST(TorchPickle, RefusesBombs) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "bomb.pth").string();
  auto said = [&](const std::string& pickle, std::size_t bytes) {
    {
      io::AtomicFile out(path);
      io::ZipWriter zip(out);
      zip.add("a/data.pkl", pickle.data(), pickle.size());
      zip.add("a/data/0", std::string(bytes, 0).data(), bytes);
      zip.finish();
      out.commit();
    }
    return test::message_of<IoError>([&] { io::load_torch(path); });
  };
  // One tensor: OrderedDict([("w", rebuild(storage of `numel`, 0, sizes, strides, False, {}))]).
  auto tensor = [](const std::string& numel, const std::string& sizes, const std::string& strides) {
    return "\x80\x02}(X\x01" + std::string(3, 0) +
           "wctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x01" +
           "0U\x03" + "cpu" + numel + "tQK" + std::string(1, 0) + "(" + sizes + "t(" + strides +
           "t\x89}tRu.";
  };
  const std::string two = "K\x02", huge = "\x8a\x08" + std::string(7, 0) + "\x40";
  EXPECT_EQ(said(tensor(two, two, "K\x01"), 8), "");
  EXPECT_THAT(said(tensor(two, two, "K\x01"), 4), HasSubstr("has 4 bytes, but 8 are needed"));
  EXPECT_THAT(said(tensor(huge, two, "K\x01"), 8), HasSubstr("more than the file can hold"));
  EXPECT_THAT(said(tensor(two, huge, "K\x01"), 8), HasSubstr("does not fit into its storage"));
  EXPECT_THAT(said(tensor(two, two, huge), 8), HasSubstr("does not fit into its storage"));
  EXPECT_THAT(said(tensor(two, huge + huge + "K" + std::string(1, 0), two + two + two), 8),
              HasSubstr("is too large"));
  EXPECT_THAT(said(std::string(std::size_t{5} << 20, 'N'), 8), HasSubstr("4 million values"));
  EXPECT_THAT(said("}" + std::string(std::size_t{5} << 20, '\x94'), 8),
              HasSubstr("its memo has more"));
}

// Two texts that are recalled for each of 10,000 globals.
TEST(TorchPickle, GlobalsAreNotMadeOfLongTexts) {
  const std::uint32_t length = 50'000;
  std::string pickle = "X" + std::string(reinterpret_cast<const char*>(&length), 4) +
                       std::string(length, 'a') +
                       std::string(
                           "q\0"
                           "0",
                           3);
  for (int i = 0; i < 10'000; ++i)
    pickle += std::string(
        "h\0h\0\x93"
        "0",
        6);
  EXPECT_THAT(test::message_of<IoError>(
                  [&] { io::parse_pickle(std::as_bytes(std::span(pickle)), "weights.pth"); }),
              HasSubstr("a global has too long a name"));
}

TEST(TorchPickle, RefusesOpcodesByName) {
  auto said = [&](const std::string& pickle) {
    return test::message_of<IoError>(
        [&] { io::parse_pickle(std::as_bytes(std::span(pickle)), "weights.pth"); });
  };
  EXPECT_THAT(said("(S'echo run'\nios\nsystem\n."),
              HasSubstr("weights.pth: has the pickle opcode STRING, which torch.save does not "
                        "write; it is not read"));
  EXPECT_THAT(said("\x80\x09}."), HasSubstr("its protocol is unknown"));
  EXPECT_THAT(said("}"), HasSubstr("it is cut short (at byte 1)"));
  EXPECT_THAT(said("."), HasSubstr("its stack is empty"));
  EXPECT_THAT(said("NN."), HasSubstr("something is left on its stack"));
  EXPECT_THAT(said("t."), HasSubstr("a mark is missing"));
  EXPECT_THAT(said("(N\x85."), HasSubstr("something is left on its stack"));
  EXPECT_THAT(said("(\x85."), HasSubstr("its stack is empty"));
  EXPECT_THAT(said("NK\x01s."), HasSubstr("its stack is empty"));
  EXPECT_THAT(said("NNK\x01s."), HasSubstr("a key is set in a value that is not a dict"));
  EXPECT_THAT(said("}(K\x01u."), HasSubstr("a key has no value"));
  EXPECT_THAT(said(")Na."), HasSubstr("appended to a value that is not a list"));
  EXPECT_THAT(said("h\x01."), HasSubstr("it gets a memo entry that does not exist"));
  EXPECT_THAT(said("NNR."), HasSubstr("the arguments of a call are not a tuple"));
  EXPECT_EQ(said("cos\nsystem\n)R."), "");  // the value is read like any other
  EXPECT_EQ(said("N)R."), "");
  EXPECT_THAT(said("\xff"), HasSubstr("an opcode is unknown"));
  // A list that contains itself does not cause an endless loop.
  EXPECT_EQ(said("]q\x01h\x01\x61."), "");
}

TEST(TorchPickle, ReadsNumbers) {
  auto number = [&](const std::string& pickle) {
    const io::Pickle read = io::parse_pickle(std::as_bytes(std::span(pickle)), "memory");
    const auto* value = read.root->as<std::int64_t>();
    return value != nullptr ? *value : -999;
  };
  EXPECT_EQ(number("J\xfe\xff\xff\xff."), -2);
  EXPECT_EQ(number("M\x01\x02."), 513);
  EXPECT_EQ(number("I-70000\n."), -70000);
  EXPECT_EQ(number("I01\n."), -999);  // True
  EXPECT_EQ(number(std::string("\x8a\x00.", 3)), 0);
  EXPECT_EQ(number("\x8a\x01\xff."), -1);
  EXPECT_EQ(number(std::string("\x8a\x02\xff\x00.", 5)), 255);
  EXPECT_EQ(number("\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01."), -999);  // more than 64 bits
}

TEST(TorchPickle, WritesWhatItReads) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "weights.pth").string();
  nn::StateDict tensors = parse_pickle(file("zip")).tensors;
  tensors.push_back({"again", find(tensors, "f32")});
  tensors.push_back({"caf\xc3\xa9", permute(randn({2, 3, 4}), {2, 0, 1})});
  io::save_torch(path, tensors);
  const io::TorchFile read = io::load_torch(path);
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, tensors[i].name);
    EXPECT_TRUE(same_bits(read.tensors[i].tensor, tensors[i].tensor)) << tensors[i].name;
  }
  EXPECT_EQ(find(read.tensors, "again").storage(), find(read.tensors, "f32").storage());
  EXPECT_THAT(test::message_of<IoError>([&] {
                io::save_torch(path, {{"w", ones({2})}, {"w", ones({3})}});
              }),
              HasSubstr("two tensors are called w"));
  EXPECT_EQ(io::load_torch(path).tensors.size(), tensors.size());  // still there
  EXPECT_EQ(folder.count(), 1);
  EXPECT_THAT(test::message_of<IoError>([&] {
                io::save_torch(path, {{"caf\xe9", ones({2})}});
              }),
              HasSubstr("is not UTF-8"));
  EXPECT_THAT(test::message_of<IoError>([&] {
                io::save_torch(path, {{"w", Tensor()}});
              }),
              HasSubstr("w is undefined"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::save_torch("/nowhere/x.pth", tensors); }),
              HasSubstr("/nowhere/x.pth"));
}

// The number of correct test images that the weights' authors report, plus or minus one that rounds
// differently.
TEST(TorchPickle, RealWeightsKnowMnist) {
  const char* root = std::getenv("RONDO_DATA");
  const std::string weights = std::string(root != nullptr ? root : "") + "/weights/mnist_cnn";
  if (root == nullptr || !std::filesystem::exists(weights + ".pt"))
    GTEST_SKIP() << "no weights under $RONDO_DATA";
  const auto images = data::open_dataset("mnist", data::Split::test, {});
  const data::ImageTransform transform({data::ToFloat{}, data::Normalize{{0.1307F}, {0.3081F}}},
                                       {});
  auto comm = dist::init({.backend = "self"});
  for (const auto& [kind, correct] : {std::pair{".pt", 9915}, std::pair{".safetensors", 9917}}) {
    test::MnistCnn net;
    net.load_state_dict(io::load_weights(weights + kind));
    EXPECT_NEAR(static_cast<double>(train::evaluate(net, images, transform, *comm).correct),
                correct, 2)
        << kind;
  }
}

}  // namespace
}  // namespace rondo
