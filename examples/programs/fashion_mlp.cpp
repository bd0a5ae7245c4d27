// Trains a multi-layer perceptron (784-512-512-10) on Fashion-MNIST. Flags and training loop are
// those of cifar_resnet. An epoch takes one or two seconds.

#include "classifier/classifier.h"

int main(int argc, char** argv) {
  return examples::run_classifier(
      argc, argv, "Trains a multi-layer perceptron on Fashion-MNIST, on one rank or many.",
      {.model = "mlp",
       .dataset = "fashion_mnist",
       .epochs = 5,
       .lr = 0.1,
       .weight_decay = 1e-4,
       .augment = false});
}
