#pragma once
// What start.cpp and solution.cpp define: how many numbers each layer trains.

#include <cstdint>

std::int64_t parameters_of_linear(std::int64_t in, std::int64_t out, bool bias);
/// A convolution with a square kernel.
std::int64_t parameters_of_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                std::int64_t groups, bool bias);
/// A batch normalisation. What it only counts is not a parameter.
std::int64_t parameters_of_batch_norm(std::int64_t channels);
/// A ResNet for CIFAR of 6 n + 2 layers: a convolution (3 to 16 channels, kernel 3) and a batch
/// normalisation; three stages of 16, 32 and 64 channels, each of n blocks of two convolutions
/// (kernel 3), each with a batch normalisation; a Linear from 64 features to 10 classes. No
/// convolution has a bias. The first convolution of stages 2 and 3 doubles the channels. The
/// residual connections have no parameters.
std::int64_t parameters_of_resnet(std::int64_t n);
