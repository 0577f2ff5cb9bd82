package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Here the tests do what a provisioner of volumes does, so that a pod waits as long as they want between filter
// and bind.

const (
	lateClass          = "made-on-the-node"
	selectedNode       = "volume.kubernetes.io/selected-node"
	bindCompleted      = "pv.kubernetes.io/bind-completed"
	boundByController  = "pv.kubernetes.io/bound-by-controller"
	claimOfTheVolume   = "data"
	coreOfReservedPods = 60
)

// newVolumeWorld returns a world with nodes of two cards, and a claim whose volume is made once kube-scheduler has
// chosen a node.
func newVolumeWorld(t *testing.T, nodes ...string) *World {
	t.Helper()
	world := newWorld(t, 0)
	for _, name := range nodes {
		plane.createNodeOf(world.ctx, t, name, v100Node(2))
		pool(world.ctx, t, name, name)
	}
	world.extender.waitNodes(t, len(nodes))
	late := storagev1.VolumeBindingWaitForFirstConsumer
	classes := plane.admin.StorageV1().StorageClasses()
	_, err := classes.Create(world.ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: lateClass},
		Provisioner: "test.example/csi", VolumeBindingMode: &late}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), lateClass, metav1.DeleteOptions{}) })
	class := lateClass
	_, err = plane.admin.CoreV1().PersistentVolumeClaims(world.namespace).Create(world.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimOfTheVolume},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: anyVolume()}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return world
}

func anyVolume() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

func (b *PodBuilder) withVolume() *PodBuilder {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimOfTheVolume}}})
	return b
}

func (b *PodBuilder) inPool(name string) *PodBuilder {
	b.pod.Spec.NodeSelector = map[string]string{"pool": name}
	return b
}

func (w *World) claim(t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := plane.admin.CoreV1().PersistentVolumeClaims(w.namespace).Get(w.ctx, claimOfTheVolume, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// waitSelected returns the node on which kube-scheduler wants the volume.
func (w *World) waitSelected(t *testing.T, pod string) string {
	t.Helper()
	node := ""
	waitFor(t, time.Minute, "the claim to get a node", func() (bool, string) {
		node = w.claim(t).Annotations[selectedNode]
		return node != "", scheduledCondition(get(w.ctx, t, w.namespace, pod))
	})
	return node
}

// makeVolume does what provisioner and volume controller do.
func (w *World) makeVolume(t *testing.T, node string) {
	t.Helper()
	claim := w.claim(t)
	name := "volume-of-" + w.namespace
	volumes := plane.admin.CoreV1().PersistentVolumes()
	here := corev1.NodeSelectorRequirement{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	volume, err := volumes.Create(w.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{Capacity: anyVolume(), AccessModes: claim.Spec.AccessModes,
			StorageClassName:       lateClass,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{here}}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = volumes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	volume.Status.Phase = corev1.VolumeBound
	if _, err := volumes.UpdateStatus(w.ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Spec.VolumeName = name
	claim.Annotations[bindCompleted], claim.Annotations[boundByController] = "yes", "yes"
	claims := plane.admin.CoreV1().PersistentVolumeClaims(w.namespace)
	claim, err = claims.Update(w.ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: anyVolume()}
	if _, err := claims.UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Two more pods want the node while the volume is made. The sums of the node would suffice for both, its cards do
// for one.
func TestAPodKeepsItsCardWhileItsVolumeIsMade(t *testing.T) {
	world := newVolumeWorld(t, "gpu-00", "gpu-01")
	create(world.ctx, t, world.pod("with-volume").share(coreOfReservedPods, 8000).withVolume())
	node := world.waitSelected(t, "with-volume")
	create(world.ctx, t, world.pod("first").share(coreOfReservedPods, 8000).inPool(node))
	waitBound(world.ctx, t, world.namespace, "first")
	create(world.ctx, t, world.pod("second").share(coreOfReservedPods, 8000).inPool(node))
	waitPending(world.ctx, t, world.namespace, "second", "kept for another pod")
	world.makeVolume(t, node)
	if bound := waitBound(world.ctx, t, world.namespace, "with-volume"); bound.Spec.NodeName != node {
		t.Errorf("the pod is on %s, its volume on %s", bound.Spec.NodeName, node)
	}
	waitPending(world.ctx, t, world.namespace, "second", coreShort)
	// kube-scheduler has changed the pod since filter, by the nomination.
	if conflicts := world.extender.metrics(t).with("mgpu_extender_bind_conflicts_total"); conflicts != 0 {
		t.Errorf("%v bindings were sent with an old resourceVersion", conflicts)
	}
	world.history.check(world.ctx, t)
}

// Nothing is kept for a pod that is deleted while it waits.
func TestADeletedPodKeepsNoCardForItsVolume(t *testing.T) {
	world := newVolumeWorld(t, "gpu-00")
	create(world.ctx, t, world.pod("with-volume").share(coreOfReservedPods, 8000).withVolume().graceless())
	node := world.waitSelected(t, "with-volume")
	create(world.ctx, t, world.pod("first").share(coreOfReservedPods, 8000).inPool(node))
	waitBound(world.ctx, t, world.namespace, "first")
	create(world.ctx, t, world.pod("second").share(coreOfReservedPods, 8000).inPool(node))
	waitPending(world.ctx, t, world.namespace, "second", "kept for another pod")
	deleteNow(world.ctx, t, world.namespace, "with-volume")
	waitBound(world.ctx, t, world.namespace, "second")
	world.history.check(world.ctx, t)
}

// As external-provisioner does it where a topology is full, the test refuses each node but the second one that is
// tried.
func TestANodeThatRefusesAPodAfterFilterIsNotAnsweredAgain(t *testing.T) {
	world := newVolumeWorld(t, "gpu-00", "gpu-01", "gpu-02", "gpu-03")
	create(world.ctx, t, world.pod("with-volume").share(coreOfReservedPods, 8000).withVolume())
	refusing := world.waitSelected(t, "with-volume")
	other, refusals := "", 0
	waitFor(t, 2*time.Minute, "another node to be tried", func() (bool, string) {
		claim := world.claim(t)
		switch node := claim.Annotations[selectedNode]; node {
		case "":
		case refusing:
			refusals++
			delete(claim.Annotations, selectedNode)
			claims := plane.admin.CoreV1().PersistentVolumeClaims(world.namespace)
			if _, err := claims.Update(world.ctx, claim, metav1.UpdateOptions{}); err != nil {
				refusals-- // kube-scheduler was faster
			}
		default:
			other = node
		}
		return other != "", scheduledCondition(get(world.ctx, t, world.namespace, "with-volume"))
	})
	// kube-scheduler may ask about the nominated node alone before it has cleared the nomination.
	if refusals > 2 {
		t.Errorf("%s was tried %d times before another node", refusing, refusals)
	}
	world.makeVolume(t, other)
	if bound := waitBound(world.ctx, t, world.namespace, "with-volume"); bound.Spec.NodeName != other {
		t.Errorf("the pod is on %s, its volume on %s", bound.Spec.NodeName, other)
	}
	world.history.check(world.ctx, t)
}

// A controller makes a pod again after kubelet has rejected or ended it, whatever is wrong with the node.
func TestAPodThatIsMadeAgainGetsAnotherOfEqualNodes(t *testing.T) {
	world := newWorld(t, 0)
	nodes := []string{"gpu-00", "gpu-01", "gpu-02", "gpu-03"}
	for _, name := range nodes {
		plane.createNodeOf(world.ctx, t, name, v100Node(2))
	}
	world.extender.waitNodes(t, len(nodes))
	used := map[string]int{}
	for range 16 {
		create(world.ctx, t, world.pod("worker").share(30, 4000))
		used[waitBound(world.ctx, t, world.namespace, "worker").Spec.NodeName]++
		deleteNow(world.ctx, t, world.namespace, "worker")
	}
	if len(used) == 1 {
		t.Errorf("a pod that is made again is always on the same node: %v", used)
	}
	world.history.check(world.ctx, t)
}
