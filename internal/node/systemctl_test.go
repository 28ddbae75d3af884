package node_test

import (
	"reflect"
	"testing"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestAskSystemctl: what systemctl shows is read, with all files of variables and with quotes.
func TestAskSystemctl(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, "")
	n.Systemctl("257.13", `ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet $A --v=2 ; ignore_errors=no ; start_time=[n/a] ; pid=0 ; status=0/0 }
Environment=A=--config=/a "B=c d"
EnvironmentFiles=/var/lib/kubelet/kubeadm-flags.env (ignore_errors=yes)
EnvironmentFiles=/etc/default/kubelet (ignore_errors=no)`, "")
	ask := node.AskSystemctl(n.Host())
	got, err := ask(t.Context(), "kubelet.service")
	want := kubelet.Command{
		Args: []string{"/usr/bin/kubelet", "$A", "--v=2"}, Environment: []string{"A=--config=/a", "B=c d"},
		Files: []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	n.Systemctl("257.13", "ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --v=2 ; ignore_errors=no }\nUnitFileState=disabled", "")
	if got, err := ask(t.Context(), "kubelet.service"); err != nil || len(got.Args) > 0 {
		t.Errorf("a disabled unit: %+v, %v", got, err)
	}
	for _, by := range []string{"WantedBy", "RequiredBy", "TriggeredBy"} {
		n.Systemctl("257.13", "ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --v=2 ; ignore_errors=no }\nUnitFileState=disabled\n"+by+"=a.unit", "")
		if got, err := ask(t.Context(), "kubelet.service"); err != nil || len(got.Args) != 2 {
			t.Errorf("a disabled unit, %s: %+v, %v", by, got, err)
		}
	}
}
