# Machines without a network, and the program that gets data for them.
export RONDO_DATA=$work/node RONDO_MIRROR=http://127.0.0.1:1 no_proxy='*'
fails_saying "on a machine with a network run \`rondo-data get mnist --to $work/node\`, and copy that folder here if the machines do not share it; or set RONDO_DATA" "$bin/fashion_mlp" --dataset mnist
fails_saying "on a machine with a network run \`rondo-data get cifar10_resnet20 --to $work/node\`" env https_proxy=http://127.0.0.1:1 no_proxy= "$bin/04_fine_tune" --images 50
fails_saying "unknown data set or weights 'imagenet'; use one of cifar10, cifar100, mnist, fashion_mnist, resnet18, " "$bin/rondo-data" get imagenet --to new
fails_saying "http://127.0.0.1:1/cifar-10-binary.tar.gz: cannot be downloaded" "$bin/rondo-data" get cifar10 --to new
fails_saying "--to" "$bin/rondo-data" get cifar10 --to ''
echo >file
fails_saying "file: cannot be created" "$bin/rondo-data" get cifar10 --to file
# The mirror's file is not MNIST: nothing of it is kept.
mkdir -p mirror/mnist
echo short | gzip >mirror/mnist/train-images-idx3-ubyte.gz
RONDO_MIRROR=file://$work/mirror fails_saying "train-images-idx3-ubyte.gz" "$bin/rondo-data" get mnist --to new
[ -z "$(find new -name '*ubyte*')" ] || fail "half a data set is left"
succeeds "$bin/rondo-data" ls
grep -qE "^mnist +data set +11.6 MB +would be in $work/node/datasets/MNIST/raw$" "$log" || fail "ls: where MNIST would be"
grep -qE "^resnet18 +weights +46.8 MB +would be in $work/node/weights/resnet18-f37072fd$" "$log" || fail "ls: where weights would be"
mkdir -p node/datasets/MNIST/raw
echo >node/datasets/MNIST/raw/t10k-images-idx3-ubyte
succeeds "$bin/rondo-data" ls
grep -qE "^mnist .* is in $work/node/datasets/MNIST/raw, but train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-labels-idx1-ubyte.gz are missing$" "$log" || fail "ls: a part of MNIST is there"
fails_saying "train-images-idx3-ubyte.gz: cannot be downloaded" "$bin/rondo-data" get mnist --to node # only a part is there
for file in train-images-idx3 train-labels-idx1 t10k-labels-idx1; do echo >node/datasets/MNIST/raw/$file-ubyte; done
succeeds "$bin/rondo-data" get mnist --to node
grep -qx "node/datasets/MNIST/raw" "$log" || fail "get names another folder"
mkdir own && mv node/datasets/MNIST own
RONDO_DATA=$work/own succeeds "$bin/rondo-data" get mnist # where `ls` finds it, too
grep -qx "$work/own/MNIST/raw" "$log" || fail "get does not know a data set in a folder of the user's own"
mv own/MNIST node/datasets
mkdir -p node/datasets/cifar-100-binary
echo >node/datasets/cifar-100-binary/test.bin
succeeds "$bin/rondo-data" ls
grep -qE "^mnist .* is in $work/node/datasets/MNIST/raw$" "$log" || fail "ls: MNIST is there"
grep -qE "^cifar100 .* is in $work/node/datasets/cifar-100-binary, but train.bin is missing$" "$log" || fail "ls: a part of CIFAR-100 is there"
fails_saying "cifar-100-binary: exists, but train.bin is missing; remove the folder" "$bin/rondo-data" get cifar100 --to node
fails_saying "standard output cannot be written" bash -c "\"$bin/rondo-data\" ls >/dev/full"
