#!/usr/bin/env bash
# Writes the files with which a kube-scheduler outside of the cluster's network calls the extender of the
# chart: kube-scheduler.yaml, ca.crt, client.crt and client.key. Run it again to renew the client
# certificate. It needs kubectl, and the rights to get the Service and the Secret of the extender.
#
#   deploy/scheduler/files.sh [FLAG...] FOLDER
#
#   --namespace NAME     the namespace of the release; default mgpu-system
#   --secret NAME        the Secret with client.crt and client.key, or with a client certificate in tls.crt
#                        and tls.key; default mgpu-extender-tls
#   --kubeconfig FILE    the kubeconfig of kube-scheduler; default /etc/kubernetes/scheduler.conf
#   --at FOLDER          where kube-scheduler finds the folder, if that is not FOLDER itself
#   --domain NAME        the chart's value resourceDomain; default vke.volcengine.com
#   --certificates-only  leaves kube-scheduler.yaml as it is, which is otherwise replaced
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
namespace=mgpu-system
secret=mgpu-extender-tls
kubeconfig=/etc/kubernetes/scheduler.conf
at=
domain=vke.volcengine.com
configure=true

fail() {
  printf 'files.sh: %s\n' "$*" >&2
  exit 2
}

while [[ $# -gt 0 && $1 == --* ]]; do
  if [[ $1 == --certificates-only ]]; then
    configure=false
    shift
    continue
  fi
  [[ $# -ge 2 ]] || fail "$1 needs a value"
  case $1 in
    --namespace) namespace=$2 ;;
    --secret) secret=$2 ;;
    --kubeconfig) kubeconfig=$2 ;;
    --at) at=$2 ;;
    --domain) domain=$2 ;;
    *) fail "unknown flag \"$1\"; expected --namespace, --secret, --kubeconfig, --at, --domain or --certificates-only" ;;
  esac
  shift 2
done
[[ $# -eq 1 ]] || fail "expected one folder for the files, got $#"
folder=$1
at=${at:-$(mkdir -p "$folder" && cd "$folder" && pwd)}
[[ $at == /* ]] || fail "--at: \"$at\" is not an absolute path"

# Prints the value of the first of these keys that the Secret has.
value_of() { # keys
  local key encoded
  for key in "$@"; do
    encoded=$(kubectl get secret "$secret" --namespace "$namespace" \
      --output "go-template={{with .data}}{{with index . \"$key\"}}{{.}}{{end}}{{end}}") || return 1
    [[ -z $encoded ]] || { base64 --decode <<<"$encoded" && return; }
  done
  fail "the Secret $namespace/$secret has no $1; the extender fills it when it starts, and its log says if it cannot." \
    "With another source of certificates than the extender, --secret names the Secret of the client certificate"
}

# kube-scheduler may read a file at any time, so that each is replaced at once.
write() { # name, text
  printf '%s\n' "$2" >"$folder/.$1.new"
  mv "$folder/.$1.new" "$folder/$1"
}

configuration() {
  local address port
  address=$(kubectl get service mgpu-extender --namespace "$namespace" --output 'jsonpath={.spec.clusterIP}') || return 1
  port=$(kubectl get service mgpu-extender --namespace "$namespace" --output 'jsonpath={.spec.ports[0].port}') || return 1
  [[ -n $address && $address != None ]] || fail "the Service $namespace/mgpu-extender has no cluster IP"
  [[ $address != *:* ]] || address="[$address]"
  sed -e '/^ *#/d' -e "s#^\( *kubeconfig:\) .*#\1 $kubeconfig#" \
    -e "s#^\(.* urlPrefix:\) .*#\1 https://$address:$port/mgpu#" \
    -e "s#^\( *serverName:\) .*#\1 mgpu-extender.$namespace.svc#" \
    -e "s#/etc/kubernetes/mgpu/#$at/#; s#vke\.volcengine\.com#$domain#" "$here/kube-scheduler-tls.yaml"
}

# tls.crt of the extender's own Secret is the certificate of its server.
of_client=(client)
[[ $secret == mgpu-extender-tls ]] || of_client+=(tls)

mkdir -p "$folder"
umask 077
if "$configure"; then configuration=$(configuration); fi
ca=$(value_of ca.crt)
certificate=$(value_of "${of_client[@]/%/.crt}")
key=$(value_of "${of_client[@]/%/.key}")
write ca.crt "$ca"
write client.crt "$certificate"
write client.key "$key"
if "$configure"; then
  write kube-scheduler.yaml "$configuration"
  printf 'files.sh: %s has the files for kube-scheduler --config=%s/kube-scheduler.yaml\n' "$folder" "$at"
else
  printf 'files.sh: %s has the certificates\n' "$folder"
fi
