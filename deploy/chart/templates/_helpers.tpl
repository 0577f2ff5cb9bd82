{{/*
The names of objects are constant, because a cluster has one installation: its policies and roles are
cluster-wide, and helm refuses a second release.
*/}}

{{/* The labels that select pods. Context: list of the root and the component. */}}
{{- define "mgpu.selector" -}}
app.kubernetes.io/name: mgpu
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object. Context: list of the root and the component. */}}
{{- define "mgpu.labels" -}}
{{- $root := index . 0 -}}
{{ include "mgpu.selector" . }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The labels of a pod: those that select it, and those of the values. Context: root, component, labels. */}}
{{- define "mgpu.podLabels" -}}
{{- include "mgpu.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
{{- range $key, $value := omit (index . 2) "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/version" }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* The repository of an image, in image.registry unless it names a registry itself. Context: as of mgpu.image. */}}
{{- define "mgpu.repository" -}}
{{- $repository := (index . 1).repository -}}
{{- /* Values of an earlier version, which helm upgrade --reuse-values keeps, do not have it. */}}
{{- $registry := ((index . 0).Values.image).registry -}}
{{- if and $registry (not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" $repository)) }}{{ $registry }}/{{ end }}{{ $repository }}
{{- end }}

{{/* The name of an image. Context: list of the root and the image's values. */}}
{{- define "mgpu.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ include "mgpu.repository" . }}@{{ $image.digest }}
{{- else -}}
{{ include "mgpu.repository" . }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Prints "true" if the chart runs a kube-scheduler. Where the extender is on loopback, it cannot be reached by one. */}}
{{- define "mgpu.bundledScheduler" -}}
{{- if and .Values.scheduler.enabled (not .Values.extender.loopback) -}}true{{- end -}}
{{- end }}

{{/* The image of kube-scheduler, by default of the API server's version without what distributions append to it. */}}
{{- define "mgpu.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- $version := regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version -}}
{{- include "mgpu.image" (list . (merge (dict "tag" ($image.tag | default $version)) $image)) -}}
{{- end }}

{{- define "mgpu.imagePullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The address of the pod with a port. Context: list of the root and the port. */}}
{{- define "mgpu.podEndpoint" -}}
{{- if contains ":" (index . 0).Values.listenAddress }}[$(POD_IP)]{{ else }}$(POD_IP){{ end }}:{{ index . 1 }}
{{- end }}

{{/* The same port on loopback, for `kubectl port-forward`. Context: as above. */}}
{{- define "mgpu.localEndpoint" -}}
{{- if contains ":" (index . 0).Values.listenAddress }}[::1]{{ else }}127.0.0.1{{ end }}:{{ index . 1 }}
{{- end }}

{{/* The Secret with the certificate for the device plugin's metrics; it may be empty. */}}
{{- define "mgpu.devicePluginSecret" -}}
{{- $made := ternary "mgpu-device-plugin-tls" "" (eq .Values.extender.certificates.source "certManager") -}}
{{- .Values.metrics.devicePluginSecretName | default $made -}}
{{- end }}

{{/* The probes of a program. Context: HTTP or HTTPS, and further fields. */}}
{{- define "mgpu.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ . }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* A share that every node accepts: its compute and memory, as JSON. The device plugin requires the rest of it. */}}
{{- define "mgpu.leastShare" -}}
{{- $core := .Values.extender.minCore | default 1 | int -}}
{{- $memory := max .Values.extender.minMemoryMiB .Values.devicePlugin.minMemoryMiB -}}
{{- $factor := 1.0 -}}
{{- $limited := ne .Values.devicePlugin.isolation "none" -}}
{{- range .Values.profiles -}}
{{- $core = max $core (.minimumCore | default 0) -}}
{{- $memory = max $memory (.minimumMemoryMiB | default 0) -}}
{{- $factor = maxf $factor (.computeFactor | default 1) -}}
{{- if ne (.isolation | default "none") "none" }}{{ $limited = true }}{{ end -}}
{{- end -}}
{{- if $limited }}{{ $memory = max $memory 1024 }}{{ end -}}
{{- if include "mgpu.mps" . }}{{ $core = max $core (int (ceil (divf (mulf 100.0 $factor) 48.0))) }}{{ end -}}
{{- dict "core" $core "memoryMiB" $memory | toJson -}}
{{- end }}

{{/* The DNS names and addresses of the extender's certificate, separated by commas. */}}
{{- define "mgpu.serverNames" -}}
{{- $namespace := .Release.Namespace -}}
{{- $names := list (printf "mgpu-extender.%s.svc" $namespace) (printf "mgpu-extender.%s" $namespace) "mgpu-extender" -}}
{{- with .Values.extender.service.clusterIP }}{{ $names = append $names . }}{{ end -}}
{{- concat $names .Values.extender.certificates.extraNames | uniq | join "," -}}
{{- end }}

{{/* How compute is shared out. Values of an earlier chart, which helm upgrade --reuse-values keeps, do not say it. */}}
{{- define "mgpu.compute" -}}
{{- .Values.devicePlugin.compute | default "none" -}}
{{- end }}

{{/* Prints "true" if MPS daemons run in pods. */}}
{{- define "mgpu.mps" -}}
{{- $modes := list "mps" -}}
{{- if eq (include "mgpu.compute" .) "mps" }}{{ $modes = list "mps" "intercept" "driver" "auto" }}{{ end -}}
{{- $mps := has .Values.devicePlugin.isolation $modes -}}
{{- range .Values.profiles }}{{ if has (.isolation | default "") $modes }}{{ $mps = true }}{{ end }}{{ end -}}
{{- if and .Values.devicePlugin.enabled $mps -}}true{{- end -}}
{{- end }}

{{/* Prints "true" if a library may limit memory in containers. */}}
{{- define "mgpu.intercept" -}}
{{- $modes := list "intercept" "auto" -}}
{{- $intercept := has .Values.devicePlugin.isolation $modes -}}
{{- range .Values.profiles }}{{ if has .isolation $modes }}{{ $intercept = true }}{{ end }}{{ end -}}
{{- if $intercept -}}true{{- end -}}
{{- end }}

{{/*
The choice of nodes with cards: those that somebody has labelled. Labels that say that a node has GPUs do not suffice,
because another device plugin may give out its cards. While the GPU operator runs NVIDIA's on the node, it has the second
label.
*/}}
{{- define "mgpu.cardNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: {{ .Values.resourceDomain }}/mgpu-node, operator: In, values: ["true"]}
      - {key: nvidia.com/gpu.deploy.device-plugin, operator: NotIn, values: ["true"]}
{{- end }}

{{/* Where the pods of the device plugin and of MPS run. Context: list of the root and the runtime class. */}}
{{- define "mgpu.cardPod" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values.devicePlugin -}}
priorityClassName: {{ $values.priorityClassName }}
{{- with index . 1 }}
runtimeClassName: {{ . }}
{{- end }}
# The programs identify the processes of containers by their numbers on the node.
hostPID: true
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
{{- if $values.affinity }}
  {{- toYaml $values.affinity | nindent 2 }}
{{- else }}
  {{- include "mgpu.cardNodes" $root | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- include "mgpu.imagePullSecrets" $root }}
{{- end }}

{{/* Flags that say where the cards and the driver are. Context: the root. */}}
{{- define "mgpu.cardFlags" -}}
- --node-root=/host
{{- with .Values.devicePlugin.driverRoot }}
- --driver-root={{ . }}
{{- end }}
{{- with .Values.devicePlugin.cardsFile }}
- --cards-file=/host{{ . }}
{{- end }}
- --run-dir={{ .Values.devicePlugin.runDir }}
{{- end }}

{{/*
The configuration of the second kube-scheduler. deploy/scheduler/kube-scheduler.yaml has the reasons.
Context: list of the root, the address of the extender and the name in its certificate.
*/}}
{{- define "mgpu.schedulerConfiguration" -}}
{{- $root := index . 0 -}}
{{- $scheduler := $root.Values.scheduler -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceNamespace: {{ $root.Release.Namespace }}
  resourceName: mgpu-scheduler
profiles:
- schedulerName: {{ $scheduler.schedulerName }}
{{- with $scheduler.percentageOfNodesToScore }}
percentageOfNodesToScore: {{ . }}
{{- end }}
extenders:
- urlPrefix: https://{{ index . 1 }}:{{ $root.Values.extender.service.port }}/mgpu
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: {{ $scheduler.weight }}
  enableHTTPS: true
  tlsConfig:
    serverName: {{ index . 2 }}
    caFile: /etc/kubernetes/mgpu-certificates/ca.crt
    certFile: /etc/kubernetes/mgpu-certificates/client.crt
    keyFile: /etc/kubernetes/mgpu-certificates/client.key
  httpTimeout: 5s
  nodeCacheCapable: true
  ignorable: false
  managedResources:
  - name: {{ $root.Values.resourceDomain }}/mgpu-core
    ignoredByScheduler: false
  - name: {{ $root.Values.resourceDomain }}/mgpu-memory
    ignoredByScheduler: false
{{- end }}

{{/* The Secret with kube-scheduler's certificate, if it is not in that of the extender. */}}
{{- define "mgpu.clientSecret" -}}
{{- with .Values.extender.certificates -}}
{{- .clientSecretName | default (ternary "mgpu-scheduler-tls" "" (eq .source "certManager")) -}}
{{- end -}}
{{- end }}

{{/* What NVIDIA's container runtime gives a container. Context: the runtime class. */}}
{{- define "mgpu.runtimeEnvironment" -}}
{{- if . -}}
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
{{- end -}}
{{- end }}

{{/* The port of the pods of Prometheus: networkPolicy.prometheusPort, or that of the URL. Context: the root. */}}
{{- define "mgpu.prometheusPort" -}}
{{- $url := .Values.extender.prometheus.url -}}
{{- $authority := first (splitList "/" (trimPrefix "http://" (trimPrefix "https://" $url))) -}}
{{- $named := regexFind ":[0-9]+$" $authority | trimPrefix ":" -}}
{{- .Values.networkPolicy.prometheusPort | default $named | default (ternary "443" "80" (hasPrefix "https://" $url)) -}}
{{- end }}

{{/* Fails unless a text has a form. Context: its name, the text, a regular expression, what was expected. */}}
{{- define "mgpu.check" -}}
{{- if not (regexMatch (index . 2) (index . 1)) -}}
{{- fail (printf "%s: is %q; expected %s" (index . 0) (index . 1) (index . 3)) -}}
{{- end -}}
{{- end }}

{{/* The same for an image. Context: list of its name and its values. */}}
{{- define "mgpu.checkImage" -}}
{{- $name := index . 0 -}}
{{- with index . 1 -}}
{{- $repository := "^[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$" -}}
{{- include "mgpu.check" (list (printf "%s.repository" $name) .repository $repository "the name of an image without tag and digest, as in registry.example.com/mgpu/mgpu-extender") -}}
{{- if contains ":" (last (splitList "/" .repository)) -}}
{{- fail (printf "%s.repository: is %q; expected the name of an image without its tag, which is %s.tag" $name .repository $name) -}}
{{- end -}}
{{- include "mgpu.check" (list (printf "%s.tag" $name) .tag "^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$" "a tag, or nothing") -}}
{{- include "mgpu.check" (list (printf "%s.digest" $name) .digest "^(sha256:[0-9a-f]{64})?$" "sha256: and 64 hexadecimal digits, or nothing") -}}
{{- end -}}
{{- end }}

{{/* What the policies about requests of cards look at: pods that are created. */}}
{{- define "mgpu.requests.rules" -}}
- apiGroups: [""]
  apiVersions: ["*"]
  operations: [CREATE]
  resources: [pods]
{{- end }}

{{/* The condition under which they do so. */}}
{{- define "mgpu.requests.condition" -}}
- name: requests-cards
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(one,
    ['{{ .Values.resourceDomain }}/mgpu-core', '{{ .Values.resourceDomain }}/mgpu-memory'].exists(name,
    name in one.?resources.?limits.orValue({}) || name in one.?resources.?requests.orValue({})))
{{- end }}

{{/*
Not empty where pods are evicted by card. A policy limits the right to delete pods, which is not given without it.
Values of an earlier release do not have preemption.
*/}}
{{- define "mgpu.preemptsByCard" -}}
{{- if and .Values.policies.enabled (dig "byCard" true (.Values.preemption | default dict)) }}true{{ end }}
{{- end }}
