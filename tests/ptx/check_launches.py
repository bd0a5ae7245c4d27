#!/usr/bin/env python3
"""Compares what the programs of tests/ptx launched with what nvcc compiled.

check_launches.py REPORT…    fails if no program launched some kernel, or if few threads of a launch ran a long loop;
                             prints the kernels whose accesses use the least of the memory's rate (requests.h)

RONDO_PTX_REPORT names the file that a program writes (launch.cpp).
"""
import collections
import statistics
import subprocess
import sys

# Kernels whose loops may be long, and why.
LONG_LOOPS = {}


def main():
    launches, loops, requests = collections.Counter(), set(), collections.defaultdict(lambda: [0, 0])
    for path in sys.argv[1:]:
        with open(path) as report:
            for line in report:
                kind, name, *numbers = line.split()
                if 'faults_cu' in name or name.startswith('_ZN3cub'):  # tests of the tests; NVIDIA's own (sort_test.cpp)
                    continue
                if kind == 'kernel':
                    launches[name] += int(numbers[0])
                elif kind == 'requests':
                    requests[name] = [a + int(b) for a, b in zip(requests[name], numbers)]
                else:
                    loops.add((name, *map(int, numbers)))
    never = [name for name, count in launches.items() if count == 0]
    long_loops = [l for l in sorted(loops) if not any(known in l[0] for known in LONG_LOOPS)]
    share = {name: size / (32 * sectors) for name, (size, sectors) in requests.items() if sectors}
    lowest = sorted(share, key=share.get)[:20]
    names = never + [l[0] for l in long_loops] + lowest
    readable = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True).stdout.split('\n')
    for name in readable[:len(never)]:
        print(f'no test launches {name}')
    for name, (mangled, threads, steps, size) in zip(readable[len(never):], long_loops):
        print(f'{threads} threads run a loop {steps} times, to move {size} bytes with {share.get(mangled, 1):.0%} of each sector: {name}')
    print('the bytes that a warp asks for, as a share of the sectors that it touches; the lowest:')
    for name, mangled in zip(readable[len(never) + len(long_loops):], lowest):
        print(f'{share[mangled]:5.0%}  {name[:200]}')
    print(f'the median of {len(share)} kernels: {statistics.median(share.values() or [1]):.0%}')
    print(f'{len(launches)} kernels; {len(never)} never launched; {len(long_loops)} launches with long loops in few threads')
    sys.exit(1 if not launches or never or long_loops else 0)


main()
