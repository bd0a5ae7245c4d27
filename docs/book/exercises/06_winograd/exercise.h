#pragma once
// What start.cpp and solution.cpp define, and the numbers with which they compute.

/// A number that counts products. A product with a constant (a double) and a sum are free here:
/// filters are transformed once, and sums are cheaper than a product of two matrices.
struct Number {
  double value = 0;
  inline static int products = 0;
};
inline Number operator+(Number a, Number b) { return {a.value + b.value}; }
inline Number operator-(Number a, Number b) { return {a.value - b.value}; }
inline Number operator*(double a, Number b) { return {a * b.value}; }
inline Number operator*(Number a, Number b) {
  ++Number::products;
  return {a.value * b.value};
}

/// Two outputs of a filter of three weights: y[i] = x[i] w[0] + x[i + 1] w[1] + x[i + 2] w[2].
void two_outputs(const Number x[4], const Number w[3], Number y[2]);
