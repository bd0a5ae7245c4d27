# Cases that scripts/test.sh leaves to --slow, because others cover what they show (docs/decisions.md, "Tests of a folder
# are one program"). A row is a file of tests and the names that its process leaves out, as in --gtest_filter.

# In the sanitized half. The Release half runs all of them; sanitized, the same lines of the library run in other cases.
set(rondo_left_out_sanitized
    # Every number of ranks: 1 and 3 remain, of the algorithms also 5 and 7 (two rounds, ranks that are folded into others).
    "dist/collectives/algorithms Ranks/*2:Ranks/*4:Ranks/*6:Ranks/*8"
    "dist/collectives/communicator Ranks/*/2*:Ranks/*/4*:Ranks/*/5*:*AMessagesTimeIsThatOfWaiting"
    "dist/collectives/cuda/gpu_collectives Ranks/*/1:Ranks/*/3"
    "dist/collectives/ring_all_reduce Ranks/*/1:Ranks/*/3:Ranks/*/4"
    "dist/collectives/sums Ranks/*/2*:Ranks/*/4*:Ranks/*/5*:Sums.AreRoundedOnceInLevels"
    "dist/data_parallel/comm_hook Ranks/*/1:Ranks/*/3"
    "dist/data_parallel/ddp Ranks/*/1:Ranks/*/3"
    "dist/data_parallel/zero Ranks/*/2:Ranks/*/3:Ranks/*/6:Ranks/*/7"
    "dist/transports/shared_memory Ranks/*/1:Ranks/*/3:Ranks/*/4"
    # Numbers: finite differences and extreme values take the paths of the cases that remain.
    "autograd/op_table *AgreesWithDifferences*:*ExtremesAgreeOnCuda*"
    # Large models: ResNet-20 has their layers, and small cases their shapes.
    "autograd/checkpoint *ResNetsOfBothKinds"
    "extras/hub/pretrained *WithoutWeightsTheNetworksAreNew"
    "extras/quantization/prepare *WholeResNetsAgreeWithThemselves"
    "nn/models *ResNet50*:*ResNet18*:*ParameterCounts*:*StartAsTorchvisionsDo"
    "nn/summary *WorkOfTheResNetsIsTorchvisions"
    # A million of something: depth and time, not other code.
    "autograd/engine *DeepGraphsNeitherRecurseNorOverflow"
    "autograd/views *ALongLoopOfWritesIsFreedWithoutRecursion"
    "extras/tape_graph/tape_graph *ALongTapeNeedsNoRecursion"
    "io/safetensors *AMillionKeysAreReadInTurn"
    # Large tensors, compared with plain loops that take longer than the kernels.
    "autograd/norm *LargeTensorsAreTheirHalves"
    # Whole data sets: their readers run on the same formats in small files.
    "data/mnist *PackageOfTheDistribution"
    "data/open *OfficialSetsHaveTheirStatistics"
    # Code that is not sanitized: the programs that the exporter writes, and cuDNN.
    "extras/export_cpp/export_cpp *DepthwiseAndPools:*UNet:*TransposedConvolutions:*Transformer:*ResNet20"
    "tensor/cuda/attention_plan *TheRealLibrary*"
    "tensor/cuda/conv_plan *TheRealLibrary*:ConvPlans.ThereAre*"
    "tensor/cuda/norm_plan *TheRealLibrary*")
