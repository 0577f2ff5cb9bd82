package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// client-go and the extender run the same credential plugin of the same kubeconfig, and both versions of
// the protocol give it the same information.
func TestTheExtenderUsesTheCredentialPluginOfAKubeconfig(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			path, folder := execKubeconfig(t, "client.authentication.k8s.io/"+version)
			config, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{Limit: 1}); err != nil {
				t.Fatalf("client-go with the plugin: %v", err)
			}
			want := execInfo(t, folder)

			extender := plane.extenderOn(t, "http", nil)
			extender.follow(path)
			extender.start(t)
			extender.waitReady(t)
			if got := execInfo(t, folder); !reflect.DeepEqual(got, want) {
				t.Errorf("the extender gives the plugin %v, client-go %v", got, want)
			}
		})
	}
}

func TestAFailingCredentialPluginIsOneSentence(t *testing.T) {
	path, folder := execKubeconfig(t, "client.authentication.k8s.io/v1")
	if err := os.WriteFile(filepath.Join(folder, "plugin"), []byte("#!/bin/sh\necho log in first >&2\nexit 4\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	checkStartError(t, extenderBinary(t), "credential plugin \""+filepath.Join(folder, "plugin")+"\": exit code 4, log in first",
		"--kubeconfig", path)
}

// execKubeconfig returns a kubeconfig whose user has a plugin, and its folder. The plugin prints the token
// of the extender, which expires soon, and writes what it gets to the file "info".
func execKubeconfig(t *testing.T, version string) (string, string) {
	t.Helper()
	folder := t.TempDir()
	credential := fmt.Sprintf(`{"kind":"ExecCredential","apiVersion":%q,"status":{"token":%q,"expirationTimestamp":%q}}`,
		version, extenderToken, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1 $MODE\" = 'get-token test' ] || exit 9\n"+
		"echo \"$KUBERNETES_EXEC_INFO\" >%q\necho '%s'\n", filepath.Join(folder, "info"), credential)
	if err := os.WriteFile(filepath.Join(folder, "plugin"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server: plane.serverURL(), CertificateAuthority: plane.authority.file(), TLSServerName: "localhost",
		Extensions: map[string]runtime.Object{"client.authentication.k8s.io/exec": &runtime.Unknown{
			Raw: []byte(`{"audience":"test","number":5,"list":["a",null,true]}`), ContentType: runtime.ContentTypeJSON}}}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: version, Command: "./plugin", Args: []string{"get-token"},
		Env:             []clientcmdapi.ExecEnvVar{{Name: "MODE", Value: "test"}},
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode, ProvideClusterInfo: true}}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path, folder
}

// execInfo returns what the plugin got, and removes it.
func execInfo(t *testing.T, folder string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "info"))
	if err != nil {
		t.Fatal(err)
	}
	var info map[string]any
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := os.Remove(filepath.Join(folder, "info")); err != nil {
		t.Fatal(err)
	}
	return info
}
