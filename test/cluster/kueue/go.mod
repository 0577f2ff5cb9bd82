// The version of Kueue whose definitions of resources the tests install. Nothing of it is built.
module mgpu/test/cluster/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.19.0
