/* Preloaded into a program: counts its parallel OpenMP regions, and the processor time (bench/cores.py). At exit it
 * writes "REGIONS SERIAL ALL" to the file RONDO_OMP_REGIONS: the main thread's seconds outside of regions, and those of
 * all threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long regions;
static double in_regions;
static int depth;

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void GOMP_parallel(void (*f)(void*), void* data, unsigned threads, unsigned flags) {
  static void (*real)(void (*)(void*), void*, unsigned, unsigned);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "GOMP_parallel");
  const double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  ++depth;
  real(f, data, threads, flags);
  if (--depth == 0) {
    ++regions;
    in_regions += seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  }
}

__attribute__((destructor)) static void report(void) {
  const char* name = getenv("RONDO_OMP_REGIONS");
  FILE* file = name != NULL ? fopen(name, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%ld %.9f %.9f\n", regions, seconds_of(CLOCK_THREAD_CPUTIME_ID) - in_regions,
          seconds_of(CLOCK_PROCESS_CPUTIME_ID));
  fclose(file);
}
