/* A program in C99 on the installed library: y = sum(x x) and its gradient. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sluice/c_api.h>

static void check(sluice_status status) {
  if (status != SLUICE_OK) {
    fprintf(stderr, "%s\n", sluice_error_message());
    exit(1);
  }
}

int main(void) {
  const float values[3] = {1.0f, 2.0f, 3.0f};
  const int64_t shape[1] = {3};
  float gradient[3];
  size_t count = 0, i;
  sluice_array_t x, y, grad;
  sluice_mode_t mode;

  if (sluice_c_api_version() != SLUICE_C_API_VERSION)
    return 2;
  check(sluice_array_create(values, "float32", 1, shape, "cpu", &x));
  check(sluice_attach_grad(x));
  check(sluice_begin_mode(1, 1, &mode));
  check(sluice_invoke("square", &x, 1, NULL, &y, 1, &count));
  sluice_end_mode(mode);
  check(sluice_backward(&y, NULL, 1, 0));
  check(sluice_grad(x, &grad));
  check(sluice_array_read(grad, gradient, sizeof gradient));
  printf("in C:");
  for (i = 0; i < 3; ++i)
    printf(" %g", gradient[i]);
  printf("\n");
  sluice_array_release(grad);
  sluice_array_release(y);
  sluice_array_release(x);
  return 0;
}
