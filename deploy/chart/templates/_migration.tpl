{{/*
The policies of migration.yaml in CEL. extender/kubectl/convert does the same to files, and
test/golden/migration has the cases that both must agree on.

Each vocabulary defines these variables, which are lists with one entry for each container in variables.all:

  problems   a sentence without the name of the container, or '' where its requests can be expressed
  cores      mgpu-core, 0 where the container requests no cards
  memories   mgpu-memory, 0 for whole cards
  cards      the number of cards

and for the pod: podProblem (a sentence or ''), added (annotations to set), removed (annotations to remove).
*/}}

{{/* The most that an amount may be; products with units and numbers of cards do not overflow. */}}
{{- define "mgpu.migration.most" -}}1073741824{{- end }}

{{/* The amounts of a resource, -1 where it is not a whole number in the range. Context: name of the resource. */}}
{{- define "mgpu.migration.amounts" -}}
variables.all.map(c, c.?resources.?limits[?'{{ . }}'].or(c.?resources.?requests[?'{{ . }}']).orValue('0'))
.map(text, isQuantity(text) && quantity(text).isInteger() && quantity(text).asInteger() >= 0 &&
quantity(text).asInteger() <= {{ include "mgpu.migration.most" . }} ? quantity(text).asInteger() : -1)
{{- end }}

{{/*
The variables that all vocabularies have. Context: a dict with root, names (of the resources that are
rewritten), others (of resources that have no equal) and variables (of the vocabulary).
*/}}
{{- define "mgpu.migration.variables" -}}
{{- $domain := .root.Values.resourceDomain -}}
# Ephemeral containers have no resources.
- name: all
  expression: object.spec.containers + object.spec.?initContainers.orValue([])
- name: apps
  expression: size(object.spec.containers)
- name: names
  expression: "['{{ join "', '" .names }}']"
- name: others
  expression: "[{{ range $i, $name := .others }}{{ if $i }}, {{ end }}'{{ $name }}'{{ end }}]"
- name: annotations
  expression: object.metadata.?annotations.orValue({})
{{ .variables }}
# What is wrong with the amounts of a container, apart from their meaning.
- name: amountProblems
  expression: >-
    variables.all.map(c, (variables.names.filter(n, n in c.?resources.?limits.orValue({}) &&
    n in c.?resources.?requests.orValue({}) &&
    quantity(c.resources.limits[n]).compareTo(quantity(c.resources.requests[n])) != 0)
    .map(n, 'has limits ' + n + ' ' + c.resources.limits[n] + ' and requests ' + c.resources.requests[n] +
    '; expected equal amounts') +
    variables.names.map(n, [n, c.?resources.?limits[?n].or(c.?resources.?requests[?n]).orValue('0')])
    .filter(one, !(isQuantity(one[1]) && quantity(one[1]).isInteger() && quantity(one[1]).asInteger() >= 0 &&
    quantity(one[1]).asInteger() <= {{ include "mgpu.migration.most" . }}))
    .map(one, 'requests ' + one[0] + ' ' + one[1] + '; expected a whole number from 0 to {{ include "mgpu.migration.most" . }}') +
    variables.others.filter(n, n in c.?resources.?limits.orValue({}) || n in c.?resources.?requests.orValue({}))
    .map(n, 'requests ' + n + ', which has no equal in mgpu'))[?0].orValue(''))
- name: containerProblem
  expression: >-
    variables.all.transformList(i, c, variables.amountProblems[i] != '' ? variables.amountProblems[i] :
    variables.problems[i] != '' ? variables.problems[i] :
    i >= variables.apps && variables.cards[i] > 1 && variables.cores[i] < 100 * variables.cards[i]
    ? 'is an init container with parts of ' + string(variables.cards[i]) + ' cards; expected one card, or whole ones' : '')
    .transformList(i, p, p == '' ? '' : 'container "' + variables.all[i].name + '" ' + p)
    .filter(p, p != '')[?0].orValue('')
- name: problem
  expression: >-
    variables.all.exists(c, ['limits', 'requests'].exists(side,
    '{{ $domain }}/mgpu-core' in c.?resources[?side].orValue({}) ||
    '{{ $domain }}/mgpu-memory' in c.?resources[?side].orValue({}))) ||
    '{{ $domain }}/container-multiple-gpu' in variables.annotations
    ? 'the pod has requests or annotations of {{ $domain }} as well; expected those of one vocabulary' :
    variables.podProblem != '' ? variables.podProblem : variables.containerProblem
{{- end }}

{{/* The condition under which a pod is looked at. Context: list of names. */}}
{{- define "mgpu.migration.condition" -}}
- name: requests-cards-in-this-vocabulary
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
    ['{{ join "', '" . }}'].exists(n, n in c.?resources.?limits.orValue({}) || n in c.?resources.?requests.orValue({})))
{{- end }}

{{/* The patch. Context: as of mgpu.migration.variables. */}}
{{- define "mgpu.migration.patch" -}}
{{- $domain := .root.Values.resourceDomain -}}
variables.problem != '' ? [] :
variables.all.transformList(i, c, ['limits', 'requests']
.filter(side, variables.names.exists(n, n in c.?resources[?side].orValue({})))
.map(side, variables.names.filter(n, n in c.resources[side])
.map(n, JSONPatch{op: 'remove', path: variables.paths[i] + side + '/' + jsonpatch.escapeKey(n)}) +
(variables.cores[i] == 0 ? [] : [JSONPatch{op: 'add',
path: variables.paths[i] + side + '/' + jsonpatch.escapeKey('{{ $domain }}/mgpu-core'), value: string(variables.cores[i])}]) +
(variables.memories[i] == 0 ? [] : [JSONPatch{op: 'add',
path: variables.paths[i] + side + '/' + jsonpatch.escapeKey('{{ $domain }}/mgpu-memory'), value: string(variables.memories[i])}]))
.flatten()).flatten() +
variables.removed.filter(key, key in variables.annotations)
.map(key, JSONPatch{op: 'remove', path: '/metadata/annotations/' + jsonpatch.escapeKey(key)}) +
(size(variables.added) + size(variables.split) == 0 || has(object.metadata.annotations) ? [] :
[JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]) +
(variables.added + variables.split).map(one, JSONPatch{op: 'add',
path: '/metadata/annotations/' + jsonpatch.escapeKey(one[0]), value: one[1]}) +
(object.spec.?schedulerName.orValue('default-scheduler') in ['default-scheduler', 'hami-scheduler'] &&
variables.cores.exists(n, n > 0)
? [JSONPatch{op: 'add', path: '/spec/schedulerName', value: '{{ include "mgpu.migration.scheduler" .root }}'}] : [])
{{- end }}

{{/* The scheduler that calls the extender. */}}
{{- define "mgpu.migration.scheduler" -}}
{{- ternary .Values.scheduler.schedulerName "default-scheduler" (ne (include "mgpu.bundledScheduler" .) "") -}}
{{- end }}

{{- define "mgpu.migration.hami" -}}
{{- $domain := .Values.resourceDomain -}}
{{- $values := .Values.migration.hami -}}
{{- range $name, $resource := dict "gpus" "gpu" "memoriesMiB" "gpumem" "percentages" "gpumem-percentage" "gpucores" "gpucores" }}
- name: {{ $name }}
  expression: >-
    {{- include "mgpu.migration.amounts" (printf "nvidia.com/%s" $resource) | nindent 4 }}
{{- end }}
# Without nvidia.com/gpu, HAMi gives a container that requests a part of a card one card.
- name: cards
  expression: >-
    variables.all.transformList(i, c,
    'nvidia.com/gpu' in c.?resources.?limits.orValue({}) || 'nvidia.com/gpu' in c.?resources.?requests.orValue({})
    ? variables.gpus[i] : variables.memoriesMiB[i] + variables.percentages[i] + variables.gpucores[i] > 0 ? 1 : 0)
# Without gpumem and gpumem-percentage, HAMi gives all memory of a card.
- name: shares
  expression: >-
    variables.all.transformList(i, c, variables.memoriesMiB[i] > 0 || !(variables.percentages[i] in [0, 100]) ||
    !(variables.gpucores[i] in [0, 100]))
- name: cores
  expression: >-
    variables.all.transformList(i, c, variables.cards[i] * (!variables.shares[i] ? 100 :
    variables.gpucores[i] > 0 ? variables.gpucores[i] : {{ int $values.core }}))
- name: memories
  expression: >-
    variables.all.transformList(i, c, !variables.shares[i] ? 0 : variables.cards[i] * (
    variables.memoriesMiB[i] > 0 ? variables.memoriesMiB[i] :
    {{ int $values.cardMemoryMiB }} * (variables.percentages[i] > 0 ? variables.percentages[i] : 100) / 100))
- name: problems
  expression: >-
    variables.all.transformList(i, c,
    variables.cards[i] == 0 && variables.memoriesMiB[i] + variables.percentages[i] + variables.gpucores[i] > 0
    ? 'requests nvidia.com/gpu 0 and a part of a card; expected nvidia.com/gpu 1 or more' :
    variables.cards[i] == 0 ? '' :
    variables.cards[i] > 64
    ? 'requests nvidia.com/gpu ' + string(variables.cards[i]) + '; expected at most 64' :
    variables.gpucores[i] > 100
    ? 'requests nvidia.com/gpucores ' + string(variables.gpucores[i]) + '; expected at most 100' :
    variables.percentages[i] > 100
    ? 'requests nvidia.com/gpumem-percentage ' + string(variables.percentages[i]) + '; expected at most 100' :
    variables.memoriesMiB[i] > 0 && variables.percentages[i] > 0
    ? 'requests nvidia.com/gpumem and nvidia.com/gpumem-percentage; expected one of them' :
    !variables.shares[i] ? '' :
    variables.memoriesMiB[i] == 0 && {{ int $values.cardMemoryMiB }} == 0
    ? 'requests ' + string(variables.percentages[i] > 0 ? variables.percentages[i] : 100) +
    ' percent of the memory of a card; expected nvidia.com/gpumem, or the memory of the cards in ' +
    'migration.hami.cardMemoryMiB' :
    variables.gpucores[i] == 0 && {{ int $values.core }} == 0
    ? 'requests a part of the memory of a card without nvidia.com/gpucores; expected both, or a default in ' +
    'migration.hami.core' : '')
- name: unknown
  expression: >-
    ['nvidia.com/use-gputype', 'nvidia.com/nouse-gputype', 'nvidia.com/use-gpuindexes', 'nvidia.com/nouse-gpuindexes',
    'nvidia.com/numa-bind', 'nvidia.com/vgpu-mode'].filter(key, key in variables.annotations)
- name: policies
  expression: "['hami.io/node-scheduler-policy', 'hami.io/gpu-scheduler-policy']"
# Pairs of a key of HAMi and the key of mgpu with the same meaning.
- name: keys
  expression: >-
    [['nvidia.com/use-gpuuuid', '{{ $domain }}/gpu-uuid'], ['nvidia.com/nouse-gpuuuid', '{{ $domain }}/gpu-uuid-exclude'],
    [variables.policies[0], '{{ $domain }}/mgpu-policy'], [variables.policies[1], '{{ $domain }}/mgpu-policy']]
    .filter(one, one[0] in variables.annotations)
- name: podProblem
  expression: >-
    size(variables.unknown) > 0
    ? 'annotation ' + variables.unknown[0] + ' has no equal in mgpu; expected ' +
    (variables.unknown[0] == 'nvidia.com/use-gputype' ? '{{ $domain }}/gpu-model with names of models' :
    variables.unknown[0] == 'nvidia.com/nouse-gputype' ? '{{ $domain }}/gpu-model-exclude with names of models' :
    'a pod without it') :
    variables.keys.exists(one, one[1] in variables.annotations)
    ? variables.keys.filter(one, one[1] in variables.annotations).map(one,
    'annotations ' + one[0] + ' and ' + one[1] + ' are both set; expected one of them')[0] :
    variables.policies.filter(key, key in variables.annotations && !(variables.annotations[key] in ['binpack', 'spread']))
    .map(key, 'annotation ' + key + ' is "' + variables.annotations[key] + '"; expected binpack or spread')[?0].orValue('')
- name: removed
  expression: variables.keys.map(one, one[0])
# HAMi's chart fills one node after the other and spreads over the cards of a node, unless its values say
# otherwise.
- name: added
  expression: >-
    variables.keys.filter(one, !(one[0] in variables.policies)).map(one, [one[1], string(variables.annotations[one[0]])]) +
    (variables.policies.exists(key, key in variables.annotations)
    ? [['{{ $domain }}/mgpu-policy', variables.annotations[?variables.policies[0]].orValue('binpack') + '/' +
    variables.annotations[?variables.policies[1]].orValue('spread')]] : [])
{{- end }}

{{- define "mgpu.migration.aliyun" -}}
{{- $values := .Values.migration.aliyun -}}
{{- $unit := ternary 1024 1 (eq $values.memoryUnit "GiB") -}}
{{- range $name, $resource := dict "mems" "gpu-mem" "percentages" "gpu-core.percentage" }}
- name: {{ $name }}
  expression: >-
    {{- include "mgpu.migration.amounts" (printf "aliyun.com/%s" $resource) | nindent 4 }}
{{- end }}
- name: countLabel
  expression: object.metadata.?labels[?'aliyun.com/gpu-count'].orValue('1')
- name: count
  expression: "variables.countLabel.matches('^([1-9]|[1-5][0-9]|6[0-4])$') ? int(variables.countLabel) : 1"
- name: podProblem
  expression: >-
    variables.countLabel.matches('^([1-9]|[1-5][0-9]|6[0-4])$') ? '' :
    'label aliyun.com/gpu-count is "' + variables.countLabel + '"; expected a number from 1 to 64'
- name: cards
  expression: "variables.mems.map(mem, mem > 0 ? variables.count : 0)"
- name: cores
  expression: >-
    variables.mems.transformList(i, mem, mem == 0 ? 0 :
    variables.percentages[i] > 0 ? variables.percentages[i] : {{ int $values.core }} * variables.count)
- name: memories
  expression: variables.mems.map(mem, mem * {{ $unit }})
- name: problems
  expression: >-
    variables.mems.transformList(i, mem,
    mem == 0 && variables.percentages[i] == 0 ? '' :
    mem == 0 ? 'requests aliyun.com/gpu-core.percentage without aliyun.com/gpu-mem; expected both' :
    variables.percentages[i] > 100
    ? 'requests aliyun.com/gpu-core.percentage ' + string(variables.percentages[i]) + '; expected at most 100' :
    variables.percentages[i] > 0 && variables.count > 1
    ? 'requests aliyun.com/gpu-core.percentage, and label aliyun.com/gpu-count is ' + string(variables.count) +
    '; expected one of them' :
    mem % variables.count != 0
    ? 'requests aliyun.com/gpu-mem ' + string(mem) + ' of ' + string(variables.count) +
    ' cards; expected a multiple of their number' :
    variables.percentages[i] == 0 && {{ int $values.core }} == 0
    ? 'requests aliyun.com/gpu-mem without aliyun.com/gpu-core.percentage; expected both, or a default in ' +
    'migration.aliyun.core' : '')
- name: added
  expression: "[['', '']].filter(one, false)"
- name: removed
  expression: "[''].filter(one, false)"
{{- end }}

{{- define "mgpu.migration.tencent" -}}
{{- range $name, $resource := dict "vcores" "vcuda-core" "blocks" "vcuda-memory" }}
- name: {{ $name }}
  expression: >-
    {{- include "mgpu.migration.amounts" (printf "tencent.com/%s" $resource) | nindent 4 }}
{{- end }}
# gpu-admission gives whole cards to a container that requests 100 or more, whatever its memory.
- name: cards
  expression: "variables.vcores.map(core, core == 0 ? 0 : core < 100 ? 1 : core / 100)"
- name: cores
  expression: variables.vcores
- name: memories
  expression: "variables.vcores.transformList(i, core, core < 100 ? variables.blocks[i] * 256 : 0)"
- name: limit
  expression: variables.annotations[?'tencent.com/vcuda-core-limit'].orValue('')
- name: problems
  expression: >-
    variables.vcores.transformList(i, core,
    core == 0 && variables.blocks[i] == 0 ? '' :
    core == 0 ? 'requests tencent.com/vcuda-memory without tencent.com/vcuda-core; expected both' :
    core < 100 && variables.blocks[i] == 0
    ? 'requests tencent.com/vcuda-core ' + string(core) + ' without tencent.com/vcuda-memory; expected both' :
    core >= 100 && core % 100 != 0
    ? 'requests tencent.com/vcuda-core ' + string(core) + '; expected less than 100, or a multiple of 100' :
    core > 6400 ? 'requests tencent.com/vcuda-core ' + string(core) + '; expected at most 6400' :
    core < 100 && variables.limit != '' && variables.limit != string(core)
    ? 'requests tencent.com/vcuda-core ' + string(core) + ', and annotation tencent.com/vcuda-core-limit is "' +
    variables.limit + '"; expected equal amounts' : '')
- name: podProblem
  expression: "''"
- name: added
  expression: "[['', '']].filter(one, false)"
- name: removed
  expression: "['tencent.com/vcuda-core-limit']"
{{- end }}

{{/* The namespaces whose pods are rewritten. */}}
{{- define "mgpu.migration.namespaces" -}}
{{- if .Values.migration.namespaceSelector }}
{{- toYaml .Values.migration.namespaceSelector }}
{{- else -}}
matchLabels:
  {{ .Values.resourceDomain }}/mgpu-migration: "true"
{{- end }}
{{- end }}
