#!/usr/bin/env bash
# Runs tests on an emulated processor with AVX-512. rondo's AVX-512 kernels are compiled on every machine,
# but without AVX-512 they never run.
#
#   extras/emulators/emulate.sh [TEST…]
#
# TEST is a file of tests/, such as tensor/reduce. scripts/test.sh builds the program,
# build/bin/test_tensor. Without TEST, the script runs the tests whose kernels exist for each instruction
# set and that end within an hour.
#
# Bochs boots Debian's Linux kernel from a CD. Its only other files are the tests, their libraries, and
# tests/golden. What takes a second on a real machine takes minutes there.
#
# The processor is Bochs' corei7_skylake_x, with AVX-512 F, CD, BW, DQ and VL; Bochs 2.7 has no processor
# with AVX-512 BF16.
#
# Exit status: 0 only if every test ran and passed.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
  tests=(autograd/layer_norm tensor/{isa,reduce,vector_math,prepared_weights,winograd,winograd_groups,depthwise,few_pixels,implicit_gemm,packed_matmul})
fi
programs=()
for test in "${tests[@]}"; do
  if [ ! -e "tests/${test}_test.cpp" ]; then
    echo "emulate.sh: '$test' is not a test: tests/${test}_test.cpp does not exist" >&2
    exit 2
  fi
  program=test_${test%%/*}
  if [ ! -x "build/bin/$program" ]; then
    echo "emulate.sh: build/bin/$program does not exist; build it first (scripts/test.sh)" >&2
    exit 2
  fi
  [[ " ${programs[*]} " == *" $program "* ]] || programs+=("$program")
done

./scripts/setup.sh extra
for command in bochs grub-mkrescue xorriso mformat cpio; do
  if ! command -v "$command" >/dev/null; then
    echo "emulate.sh: no $command here (scripts/setup.sh extra installs it)" >&2
    exit 1
  fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The kernel is downloaded but not installed, because only the emulated machine uses it.
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *//p' | head -n 1)
(cd "$folder" && apt-get -q -o APT::Sandbox::User=root download "$kernel" >/dev/null && dpkg-deb -x "$kernel"_*.deb kernel)

# The first root file system: busybox, the tests, and their libraries.
root=$folder/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,lib64,lib,tests} "$root$PWD/tests" "$folder/cd/boot/grub"
cp "$(command -v busybox)" "$root/bin/"
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
cp -r tests/golden "$root$PWD/tests/"
for program in "${programs[@]}"; do
  strip -o "$root/tests/$program" "build/bin/$program"
  ldd "build/bin/$program" | grep -o '/[^ ]*' | xargs cp -Lt "$root/lib/"
done
# LD_BIND_NOW: for a lazy binding, glibc saves more registers than this machine restores (no XSAVEC, see
# below).
cat >"$root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ifconfig lo 127.0.0.1 up
export HOME=/tmp LD_LIBRARY_PATH=/lib LD_BIND_NOW=1
cd /tests
if ! grep -q -w avx512f /proc/cpuinfo; then
  echo "emulate.sh: this processor has no AVX-512: no test was run"
  sleep 2
  poweroff -f
fi
for test in ${tests[*]}; do
  if ./test_\${test%%/*} --file=\$test --gtest_color=no >/tmp/output 2>&1; then
    echo "emulate.sh: \$test: \$(grep -w PASSED /tmp/output)"
  else
    echo "emulate.sh: \$test: failed with status \$?"
    grep -B 30 -w FAILED /tmp/output | head -n 200
    tail -n 5 /tmp/output
  fi
done
echo "emulate.sh: done"
sleep 2  # until the line has sent it
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$folder/cd/boot/initrd"
cp "$folder"/kernel/boot/vmlinuz-* "$folder/cd/boot/vmlinuz"
# Linux considers the sizes of Bochs' XSAVES and XSAVEC wrong and then disables AVX.
cat >"$folder/cd/boot/grub/grub.cfg" <<'END'
set timeout=0
menuentry rondo {
  linux /boot/vmlinuz console=ttyS0 mitigations=off tsc=reliable random.trust_cpu=on clearcpuid=xsaves,xsavec quiet
  initrd /boot/initrd
}
END
grub-mkrescue -o "$folder/cd.iso" "$folder/cd" >"$folder/grub.log" 2>&1 || {
  echo "emulate.sh: grub-mkrescue failed:" >&2
  cat "$folder/grub.log" >&2
  exit 1
}

cat >"$folder/bochsrc" <<END
cpu: model=corei7_skylake_x, count=1, ips=50000000
memory: guest=2048, host=2048
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$folder/cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$folder/output
display_library: rfb, options="timeout=0"
sound: driver=dummy, waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
log: $folder/bochs.log
panic: action=fatal
clock: sync=none
END
touch "$folder/output"
echo "emulate.sh: ${#tests[@]} tests on an emulated processor with AVX-512"
# Bochs stops in its debugger and needs "continue"; it exits when Linux switches the power off.
mkfifo "$folder/commands"
exec 3<>"$folder/commands"
bochs -q -f "$folder/bochsrc" <&3 >"$folder/bochs.out" 2>&1 &
bochs=$!
trap 'kill $bochs 2>/dev/null || true; rm -rf "$folder"' EXIT
echo continue >&3
tail -n +1 -f --pid=$bochs "$folder/output" | grep --line-buffered -v '^\[ *[0-9.]*\]' || true

if ! grep -q '^emulate.sh: done' "$folder/output"; then
  echo "emulate.sh: the emulated machine did not come to its end:" >&2
  tail -n 5 "$folder/bochs.out" >&2
  exit 1
fi
passed=$(grep -c '^emulate.sh: [^ ]*: .*PASSED' "$folder/output" || true)
echo "emulate.sh: $passed of ${#tests[@]} tests passed"
[ "$passed" -eq ${#tests[@]} ]
