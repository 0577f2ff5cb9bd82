#!/usr/bin/env bash
# Runs a command as root with its own mounts, network and processes, so that several kubelets can run on this machine
# at the same time: the folder of device plugins and others cannot be configured, and the addresses of pods, the
# network devices and the rules of kube-proxy are the same in each run. When the command has ended, or this program
# is killed, the kernel ends all of its processes and removes its mounts and network devices.
#
#   namespaces.sh COMMAND...
#
# The command sees MGPU_TEST_NAMESPACES=1, an empty network with an interface that has an address, and these folders
# empty. Its mounts are shared with the containers that it starts.
set -euo pipefail

readonly folders=(/var/lib/kubelet /var/lib/cni /var/log/containers /var/log/pods /run/containerd)

if [[ ${MGPU_TEST_NAMESPACES-} != 1 ]]; then
  export MGPU_TEST_NAMESPACES=1
  exec unshare --mount --net --pid --fork --kill-child --mount-proc bash "${BASH_SOURCE[0]}" "$@"
fi

mount --make-rshared /
mkdir -p "${folders[@]}"
for folder in "${folders[@]}"; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done

# A Service is reached by the default route.
ip link set lo up
ip link add mgpu-host type veth peer name mgpu-peer
ip address add 10.212.0.1/24 dev mgpu-host
ip link set mgpu-peer up
ip link set mgpu-host up
ip route add default dev mgpu-host

# This shell is the first process, which collects the processes whose parents have ended, and which SIGTERM does not end.
status=0
"$@" || status=$?
exit "$status"
