#include "ops/elementwise.h"

#include "ops/check.h"
#include "ops/residual.h"

namespace strata {
namespace {

// y[n][c] (+)= f(n, c).
template <typename Fn>
void each_element(const Tensor& y, Store store, const OpContext& context, const Fn& f) {
  context.pool->parallel_for(y.rows, rows_per_piece(y.columns), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* row = y.row<float>(n);
      const auto of_row = f(n);
      if (store == Store::add)
        for (int64_t c = 0; c < y.columns; ++c) row[c] += of_row(c);
      else
        for (int64_t c = 0; c < y.columns; ++c) row[c] = of_row(c);
    }
  });
}

}  // namespace

void scale(const Tensor& x, float factor, Store store, const Tensor& y, const OpContext& context) {
  check_like("scale", "x", x, x);
  check_like("scale", "y", y, x);
  each_element(y, store, context, [&](int64_t n) {
    return [factor, row = x.row<float>(n)](int64_t c) { return factor * row[c]; };
  });
}

void multiply(const Tensor& a, const Tensor& b, Store store, const Tensor& y,
              const OpContext& context) {
  check_like("multiply", "a", a, a);
  check_like("multiply", "b", b, a);
  check_like("multiply", "y", y, a);
  each_element(y, store, context, [&](int64_t n) {
    return [p = a.row<float>(n), q = b.row<float>(n)](int64_t c) { return p[c] * q[c]; };
  });
}

void multiply_columns(const Tensor& x, const float* factors, Store store, const Tensor& y,
                      const OpContext& context) {
  check_like("multiply_columns", "x", x, x);
  check_like("multiply_columns", "y", y, x);
  each_element(y, store, context, [&](int64_t n) {
    return [factors, row = x.row<float>(n)](int64_t c) { return row[c] * factors[c]; };
  });
}

void add_column_products(const Tensor& x, const Tensor& d_y, float* d_factors, Workspace& workspace,
                         const OpContext& context) {
  check_like("add_column_products", "d_y", d_y, x);
  Tensor products = x;
  products.stride = x.columns;
  products.data = workspace.floats(x.rows * x.columns);
  multiply(x, d_y, Store::set, products, context);
  add_column_sums(products, d_factors, workspace.nested(), context);
}

}  // namespace strata
