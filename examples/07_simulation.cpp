// 07_simulation: trains a network on the results of a simulation while the simulation runs.
//
//   mpirun -np 2 build/bin/07_simulation
//
// The simulation computes how heat spreads on a square plate. It starts MPI itself, and each rank
// has a strip of rows:
//
//   u[i, j] += c (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4 u[i, j])
//
// The network is a surrogate of the simulation: from the field now it predicts the field `ahead`
// steps later, without the steps between. Simulation and training run on the same ranks and share
// no file:
//
// 1. The solver pushes a pair (now, later) into a data::ReplayBuffer.
// 2. The ranks train on the pairs in the buffer, over the communicator that the program gave to
//    rondo.
// 3. At the end the surrogate predicts new pairs. The program compares its error with the error of
//    the simplest predictor, "nothing changes".
//
// Read dist/launch/init.h (Note [A program that has MPI already]) and data/replay_buffer.h next.

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "data/loader.h"
#include "data/replay_buffer.h"
#include "dist/data_parallel/ddp.h"
#include "dist/launch/init.h"
#include "dist/launch/threads.h"
#include "extras/command_line.h"
#include "nn/conv2d.h"
#include "optim/adam.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

constexpr std::int64_t size = 64;         // the plate has size x size cells and is periodic
constexpr std::int64_t halo = 4;          // width of a strip's halo: the radius of the network's
                                          // receptive field
constexpr int ahead = 6;                  // the surrogate predicts so many steps at once
constexpr float conduction = 0.2F;        // c = conductivity dt / dx^2; stable up to 0.25
constexpr std::int64_t buffer_size = 32;  // pairs that a rank keeps
constexpr std::int64_t batch = 8;

// ---- The simulation. It uses MPI, and of rondo only the tensor that holds the field.

/// One rank's strip of the plate, with a halo on all four sides.
class Plate {
 public:
  explicit Plate(MPI_Comm strips) : strips_(strips) {
    int ranks = 1, rank = 0;
    MPI_Comm_size(strips_, &ranks);
    MPI_Comm_rank(strips_, &rank);
    MPI_Cart_shift(strips_, 0, 1, &above_, &below_);
    rd::require(size % ranks == 0 && size / ranks >= halo, "07_simulation: ", size,
                " rows cannot be divided among ", ranks, " ranks; start 1, 2, 4, 8 or 16");
    rows_ = size / ranks;
    first_row_ = rank * rows_;
    now_ = rd::zeros({rows_ + 2 * halo, width});
    next_ = rd::zeros({rows_ + 2 * halo, width});
  }

  /// Heats a round spot. All ranks call it with the same arguments; each heats its own strip.
  void heat(float row, float column, float radius) {
    const auto far = [](float from, std::int64_t to) {  // the periodic distance
      const float d = std::abs(from - static_cast<float>(to));
      return std::min(d, static_cast<float>(size) - d);
    };
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        const float y = far(row, first_row_ + i), x = far(column, j);
        at(now_, i, j) += std::exp(-(x * x + y * y) / (2 * radius * radius));
      }
    }
  }

  void step() {
    exchange_halo();
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        at(next_, i, j) = at(now_, i, j) + conduction * (at(now_, i - 1, j) + at(now_, i + 1, j) +
                                                         at(now_, i, j - 1) + at(now_, i, j + 1) -
                                                         4 * at(now_, i, j));
      }
    }
    std::swap(now_, next_);
  }

  /// Copies with one channel. with_halo() is the network's input (1, rows + 2 halo, size + 2 halo),
  /// strip() is its target (1, rows, size).
  Tensor with_halo() {
    exchange_halo();
    return now_.clone().unsqueeze(0);
  }
  Tensor strip() const {
    return now_.narrow(0, halo, rows_).narrow(1, halo, size).clone().unsqueeze(0);
  }

 private:
  static constexpr std::int64_t width = size + 2 * halo;
  static float& at(const Tensor& field, std::int64_t i, std::int64_t j) {
    return field.data_ptr<float>()[(i + halo) * width + j + halo];
  }

  /// Receives the neighbours' rows over MPI, then copies the columns of the opposite edge.
  void exchange_halo() {
    const int count = halo * width;
    float* const field = now_.data_ptr<float>();
    float* const end = field + rows_ * width;
    MPI_Sendrecv(field + count, count, MPI_FLOAT, above_, 0, end + count, count, MPI_FLOAT, below_,
                 0, strips_, MPI_STATUS_IGNORE);
    MPI_Sendrecv(end, count, MPI_FLOAT, below_, 1, field, count, MPI_FLOAT, above_, 1, strips_,
                 MPI_STATUS_IGNORE);
    for (std::int64_t i = -halo; i < rows_ + halo; ++i) {
      for (std::int64_t j = 0; j < halo; ++j) {
        at(now_, i, j - halo) = at(now_, i, size - halo + j);
        at(now_, i, size + j) = at(now_, i, j);
      }
    }
  }

  MPI_Comm strips_;
  int above_ = 0, below_ = 0;
  std::int64_t rows_ = 0, first_row_ = 0;
  Tensor now_, next_;
};

/// Makes pairs (now, later) of a plate. Before every third pair it heats a new spot.
class Simulation {
 public:
  explicit Simulation(MPI_Comm strips) : plate_(strips) {}

  std::pair<Tensor, Tensor> next_pair() {
    if (pairs_++ % 3 == 0) {  // the ranks have equal generators, hence draw equal numbers
      std::uniform_real_distribution<float> place(0, size), radius(2, 5);
      const float row = place(random_), column = place(random_);
      plate_.heat(row, column, radius(random_));
    }
    Tensor now = plate_.with_halo();
    for (int i = 0; i < ahead; ++i) plate_.step();
    return {std::move(now), plate_.strip()};
  }

 private:
  Plate plate_;
  std::mt19937 random_{1};
  int pairs_ = 0;
};

// ---- The surrogate.

/// Two convolutions without padding: (N, 1, H + 2 halo, W + 2 halo) to (N, 1, H, W). Each output
/// depends on the cells at most `halo` away. A residual connection adds the input, so the
/// convolutions predict the change, and the untrained network is nearly the predictor "nothing
/// changes".
struct Surrogate : nn::Module {
  nn::Conv2d see{1, 12, 5};
  nn::Conv2d sum{12, 1, 5};

  static Tensor inner(const Tensor& x) {
    return x.narrow(2, halo, x.size(2) - 2 * halo).narrow(3, halo, x.size(3) - 2 * halo);
  }
  Tensor forward(const Tensor& x) override { return inner(x) + sum(relu(see(x))); }
  void visit(nn::Visitor& v) override {
    v.child("see", see);
    v.child("sum", sum);
  }
};

/// The root mean square over all cells of all ranks. It calls MPI directly. rondo's communicator
/// would do as well: the program's messages and rondo's messages cannot be confused.
double rms(double sum, double count, MPI_Comm strips) {
  double mine[] = {sum, count}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, strips);
  return std::sqrt(all[0] / all[1]);
}

double squares(const Tensor& x) { return (x * x).sum().item<double>(); }

int run(int argc, char** argv) {
  std::int64_t pairs = 120;
  rd::flags::CommandLine app("Trains a network on a simulation of heat while the simulation runs");
  app.add("--pairs", pairs, "number of training pairs that the simulation makes",
          rd::flags::count());
  if (auto status = app.parse(argc, argv)) return *status;

  // A ring of strips. MPI may reorder the ranks; rondo takes its ranks from this communicator.
  MPI_Comm strips;
  int ranks = 1;
  const int is_ring = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &is_ring, /*reorder=*/1, &strips);
  Simulation simulation(strips);

  auto comm = rd::dist::init({.mpi_comm = strips});
  rd::dist::use_threads(*comm);
  rd::manual_seed(1);
  Surrogate net;
  rd::dist::DistributedDataParallel ddp(net, comm);
  optim::Adam adam(net.parameters(), {.lr = 3e-3});
  const auto buffer = std::make_shared<rd::data::ReplayBuffer>(buffer_size);

  double sum = 0, count = 0;  // sum and number of squared errors since the last line of output
  for (std::int64_t pair = 1; pair <= pairs; ++pair) {
    const auto [now, later] = simulation.next_pair();
    buffer->push(now, later);
    // The buffer grows at first, so each iteration makes a sampler of its current size. All ranks
    // have the same number of pairs, hence the same number of batches, which DDP needs.
    rd::data::DataLoader loader(
        buffer, std::make_shared<rd::data::RandomSampler>(buffer->size(), /*seed=*/pair),
        {.batch_size = batch});
    for (auto& [x, y] : loader) {
      adam.zero_grad();
      const Tensor loss = mse_loss(ddp(x), y);
      loss.backward();  // returns with gradients averaged over the ranks
      adam.step();
      sum += loss.item<double>() * static_cast<double>(y.numel());
      count += static_cast<double>(y.numel());
    }
    if (pair % 20 != 0) continue;
    const double error = rms(std::exchange(sum, 0), std::exchange(count, 0), strips);
    if (comm->rank() == 0)
      std::printf("pair %lld, %lld in the buffer: error %.5f\n", static_cast<long long>(pair),
                  static_cast<long long>(buffer->size()), error);
  }

  // Evaluation: the simulation continues, and the network no longer trains.
  const rd::NoGradGuard no_grad;
  double surrogate = 0, unchanged = 0, cells = 0;
  for (int i = 0; i < 20; ++i) {
    const auto [now, later] = simulation.next_pair();
    const Tensor x = now.unsqueeze(0), y = later.unsqueeze(0);
    surrogate += squares(net(x) - y);
    unchanged += squares(Surrogate::inner(x) - y);
    cells += static_cast<double>(y.numel());
  }
  surrogate = rms(surrogate, cells, strips);
  unchanged = rms(unchanged, cells, strips);
  if (comm->rank() == 0)
    std::printf(
        "%d steps ahead: error of the surrogate %.5f, of an unchanged field %.5f: %.1f times "
        "smaller\n",
        ahead, surrogate, unchanged, unchanged / surrogate);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // With MPI_THREAD_FUNNELED only this thread may call MPI. rondo respects that.
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int status = rd::dist::run([&] { return run(argc, argv); });
  if (status == 0) MPI_Finalize();  // after an error it could wait for ranks that have ended
  return status;
}
