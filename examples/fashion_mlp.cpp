// The network of many a first tutorial: 784-512-512-10 on Fashion-MNIST, with the same flags and
// the same loop as cifar_resnet. An epoch takes a second or two.

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
