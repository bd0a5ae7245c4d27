// Trains a residual network on CIFAR, in one process or on several ranks:
//
//   build/bin/cifar_resnet
//   mpirun -np 4 build/bin/cifar_resnet --model resnet20 --epochs 12
//
// Read next:
//
//   classifier/classifier.cpp     the program, from top to bottom
//   train/fit.cpp                 the training loop
//   dist/data_parallel/ddp.cpp    how the ranks average gradients during backward

#include "classifier/classifier.h"

int main(int argc, char** argv) {
  return examples::run_classifier(argc, argv, "Trains a ResNet on CIFAR-10, on one rank or many.",
                                  {.model = "resnet20", .dataset = "cifar10"});
}
