//go:build node

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"node-partition.io/node-partition/tests/lab"
)

// TestLateVar: the configuration is on a file system that systemd mounts itself, after the
// generators have run.
func TestLateVar(t *testing.T) {
	onEach(t, kinds(debians(), "trixie", "bookworm"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour,
			Files: append(programs(),
				kubeletConfig(t, partitionOf("256Mi", "0")),
				// Drop-ins are on the root file system: the configuration is incomplete until /var is mounted.
				lab.File{Path: dropins + "/10-limit.conf", Data: []byte(dropinHead + "systemPartition: {memoryLimit: 512Mi}\nmaxPods: 20\n")},
				lab.File{Path: dropins + "/20-cpus.conf", Data: []byte(dropinHead + "reservedSystemCPUs: \"0\"\n")},
				lab.File{Path: "/etc/default/node-partition", Data: []byte("KUBELET_CONFIG_DIR=" + dropins + "\n")},
				lab.File{Path: "/etc/default/kubelet", Data: []byte("KUBELET_EXTRA_ARGS=--config-dir=" + dropins + "\n")},
			),
			LateVar: true,
		})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, n, "findmnt -n -o TARGET /var", "/var")
		placedAtBoot(t, n, flavour, 0)
		wantLimits(t, n, "536870912", "0")
		want(t, n, "systemctl is-active kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice | uniq", "active")
		startedBeforeKubelet(t, n)
		want(t, n, "systemctl show --value -p Before partition-generator-late.service | grep -ow kubelet.service", "kubelet.service")
		want(t, n, "systemctl show --value -p Result,ActiveState,NeedDaemonReload partition-generator-late.service | sort | xargs", "active no success")
		want(t, n, "journalctl -b -o cat -t partition-generator", "")
		want(t, n, "journalctl -b -o cat -p warning _PID=1 | grep -E 'kubepods-system|node-partition|partition-generator' || true", "")
		// The kubelet has merged the same files, including sections that it does not know.
		merged := configz(t, n)
		if merged.MaxPods != 20 || merged.ReservedSystemCPUs != "0" || merged.CgroupDriver != "systemd" {
			t.Errorf("the kubelet has maxPods %d, reservedSystemCPUs %q, cgroupDriver %q; want 20, 0, systemd",
				merged.MaxPods, merged.ReservedSystemCPUs, merged.CgroupDriver)
		}
		configure(t, n, partitionOf("256Mi", "0-1"))
		wantReported(t, n, lab.KubeletConfigPath+`: systemPartition.cpuset: "0-1": CPU 1 is not one of reservedSystemCPUs, 0`)
		wantLimits(t, n, "536870912", "0")
		// A later reload changes nothing, and a broken file leaves the units as they are.
		configure(t, n, partitionOf("1Gi", "x"))
		wantLimits(t, n, "536870912", "0")
	})
}

const (
	dropins    = "/etc/kubernetes/kubelet.conf.d"
	dropinHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
)

// configz reads the running configuration of the kubelet.
func configz(t *testing.T, n *lab.Node) kubeletv1beta1.KubeletConfiguration {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: n.Dial,
		// The kubelet of a node without an API server has a self-signed certificate.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:10250/configz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		KubeletConfig kubeletv1beta1.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return answer.KubeletConfig
}
