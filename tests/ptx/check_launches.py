#!/usr/bin/env python3
"""Compares what the programs of tests/ptx launched with what nvcc compiled.

check_launches.py REPORT…    fails if no program launched some kernel, or if few threads of a launch ran a long loop

RONDO_PTX_REPORT names the file that a program writes (launch.cpp).
"""
import collections
import subprocess
import sys

# Kernels whose loops may be long, and why.
LONG_LOOPS = {}


def main():
    launches, loops = collections.Counter(), set()
    for path in sys.argv[1:]:
        with open(path) as report:
            for line in report:
                kind, name, *numbers = line.split()
                if 'faults_cu' in name or name.startswith('_ZN3cub'):  # tests of the tests; NVIDIA's own (sort_test.cpp)
                    continue
                if kind == 'kernel':
                    launches[name] += int(numbers[0])
                else:
                    loops.add((name, *map(int, numbers)))
    never = [name for name, count in launches.items() if count == 0]
    long_loops = [l for l in sorted(loops) if not any(known in l[0] for known in LONG_LOOPS)]
    names = never + [l[0] for l in long_loops]
    readable = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True).stdout.split('\n')
    for name in readable[:len(never)]:
        print(f'no test launches {name}')
    for name, (_, threads, steps, size) in zip(readable[len(never):], long_loops):
        print(f'{threads} threads run a loop {steps} times, to move {size} bytes: {name}')
    print(f'{len(launches)} kernels; {len(never)} never launched; {len(long_loops)} launches with long loops in few threads')
    sys.exit(1 if not launches or never or long_loops else 0)


main()
