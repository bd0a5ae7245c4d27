// Trains a residual network on CIFAR: the main job. On one process,
//
//   build/bin/cifar_resnet
//
// or on as many as there are cores, or machines:
//
//   mpirun -np 4 build/bin/cifar_resnet --model resnet20 --epochs 12
//
// What it does is in classifier/classifier.cpp, top to bottom; the loop is train/fit.cpp, the
// averaging of gradients behind its backward dist/data_parallel/ddp.cpp.

#include "classifier/classifier.h"

int main(int argc, char** argv) {
  return examples::run_classifier(argc, argv, "Trains a ResNet on CIFAR-10, on one rank or many.",
                                  {.model = "resnet20", .dataset = "cifar10"});
}
