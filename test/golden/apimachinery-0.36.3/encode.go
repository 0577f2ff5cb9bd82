//go:build ignore

// Writes the same objects in JSON and in protobuf, as kube-apiserver encodes them: a watch of pods, a list and a
// Status.
//
//	cd test/cluster && go run ../golden/apimachinery-0.36.3/encode.go ../golden/apimachinery-0.36.3
package main

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

func pointer[T any](value T) *T { return &value }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "ml", UID: "u-" + "1", ResourceVersion: "77",
		CreationTimestamp: metav1.NewTime(time.Unix(1767323045, 0))}
}

func container(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "train:1", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"vke.volcengine.com/mgpu-core": resource.MustParse("30"),
			"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Gi")},
		Requests: corev1.ResourceList{"vke.volcengine.com/mgpu-core": resource.MustParse("30")}}}
}

func everything() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta("everything")}
	pod.DeletionTimestamp = pointer(metav1.NewTime(time.Unix(1767409445, 0)))
	pod.DeletionGracePeriodSeconds = pointer(int64(30))
	pod.Labels = map[string]string{"app": "a", "b": ""}
	pod.Annotations = map[string]string{"text": "\"\u00e9\n<&>", "bad": "a\xffb\xc3", "empty": ""}
	pod.Finalizers = []string{"a/b"}
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u-2"},
		{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "u-3", Controller: pointer(true)}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:name":{}}}`)}}}
	sidecar := container("side")
	sidecar.RestartPolicy = pointer(corev1.ContainerRestartPolicyAlways)
	server := container("serve")
	server.Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81}}
	pod.Spec = corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container("init")},
		Containers: []corev1.Container{container("main"), server, {Name: "log"}},
		NodeName:   "n1", SchedulerName: "default-scheduler", Priority: pointer(int32(-5)),
		Overhead: corev1.ResourceList{"cpu": resource.MustParse("250m")}}
	pod.Spec.Resources = requesting("6")
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: pointer(metav1.NewTime(time.Unix(1767323046, 0))),
		NominatedNodeName: "n2",
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "side", ContainerID: "containerd://aa",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "cri-o://bb",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "log", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PullImage"}}}}}
	pod.Status.ContainerStatuses[0].Resources = requesting("3")
	pod.Status.ContainerStatuses[0].AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("4")}
	pod.Status.ContainerStatuses[1].Resources = &corev1.ResourceRequirements{}
	pod.Status.InitContainerStatuses[0].AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("9")}
	pod.Status.Resources = requesting("7")
	pod.Status.AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("8")}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Reason: corev1.PodReasonInfeasible},
		{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	return pod
}

func requesting(cpu string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu),
		"memory": resource.MustParse("1Gi")}}
}

func deferred() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta("deferred")}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}}
	return pod
}

func longGrace() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta("long-grace")}
	pod.DeletionTimestamp = pointer(metav1.NewTime(time.Unix(1767409445, 0)))
	pod.DeletionGracePeriodSeconds = pointer(int64(99_999_999_999))
	return pod
}

func zeroTimes() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta("zero-times")}
	pod.DeletionTimestamp, pod.Status.StartTime = &metav1.Time{}, &metav1.Time{}
	return pod
}

func epoch() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta("epoch")}
	pod.DeletionTimestamp, pod.Status.StartTime = pointer(metav1.Unix(0, 0)), pointer(metav1.Unix(0, 0))
	return pod
}

func withVolume(name string, source corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(name)}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	return pod
}

func withSpec(name string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name), Spec: spec}
}

// pods has, beside the first ones, one pod for each thing that decides whether it may run beside others.
func pods() []*corev1.Pod {
	term := corev1.PodAffinityTerm{TopologyKey: "zone"}
	weighted := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	return []*corev1.Pod{everything(), longGrace(), zeroTimes(), epoch(), deferred(), {ObjectMeta: meta("least")},
		withVolume("host-path", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		withVolume("empty-dir", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		withVolume("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
		withVolume("downward", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}),
		withVolume("config-map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
		withVolume("projected", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}),
		withVolume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}),
		withVolume("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
		withVolume("image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}),
		withVolume("nfs", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}),
		withSpec("spread", corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1}}}),
		withSpec("resource-claim", corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "r"}}}),
		withSpec("affinity", corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}}),
		withSpec("anti-affinity", corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}}),
		withSpec("preferred", corev1.PodSpec{Affinity: &corev1.Affinity{
			NodeAffinity:    &corev1.NodeAffinity{},
			PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}}),
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func encoderFor(info runtime.Serializer, group schema.GroupVersion) runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(info, group)
}

func main() {
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	for mediaType, suffix := range map[string]string{"application/json": ".json", "application/vnd.kubernetes.protobuf": ".pb"} {
		info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !ok {
			panic(mediaType)
		}
		save := func(name string, bytes []byte) {
			if err := os.WriteFile(filepath.Join(os.Args[1], name+suffix), bytes, 0o644); err != nil {
				panic(err)
			}
		}
		encoder := encoderFor(info.Serializer, corev1.SchemeGroupVersion)
		save("watch", watch(info, encoder))
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "12", Continue: "c"}}
		for _, pod := range pods() {
			list.Items = append(list.Items, *pod)
		}
		save("list", must(runtime.Encode(encoder, list)))
		save("status", must(runtime.Encode(encoder, status())))
	}
}

// watch has an event of each type.
func watch(info runtime.SerializerInfo, encoder runtime.Encoder) []byte {
	var stream bytes.Buffer
	frames := info.StreamSerializer.Framer.NewFrameWriter(&stream)
	send := func(kind string, object runtime.Object) {
		event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: must(runtime.Encode(encoder, object))}}
		if err := info.StreamSerializer.Serializer.Encode(event, frames); err != nil {
			panic(err)
		}
	}
	for _, pod := range pods() {
		send("ADDED", pod)
	}
	send("MODIFIED", pods()[0])
	send("DELETED", pods()[0])
	send("BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "99"}})
	send("ERROR", status())
	return stream.Bytes()
}

func status() *metav1.Status {
	return &metav1.Status{Status: "Failure", Message: "too old resource version: 1 (77)", Reason: metav1.StatusReasonExpired,
		Code: 410}
}
