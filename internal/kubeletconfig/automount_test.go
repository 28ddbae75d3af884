package kubeletconfig

import (
	"slices"
	"strings"
	"testing"
)

// TestLoadIdleAutomount: a place below an automount that is idle is not looked at, because a look
// would mount it and wait for its server. A place that the settings name is read as it is.
func TestLoadIdleAutomount(t *testing.T) {
	const (
		dropin = "/etc/openshift/kubelet.conf.d/1.conf"
		idle   = "40 1 0:40 / /etc/openshift rw - autofs systemd-1 rw\n41 1 0:41 / /etc/kubernetes rw - autofs systemd-1 rw\n"
		root   = "1 1 8:1 / / rw - ext4 /dev/vda rw\n"
	)
	files := map[string]string{
		"/etc/fstab":                   "server:/a /etc/openshift nfs noauto,x-systemd.automount 0 0\nserver:/b /etc/kubernetes nfs noauto,x-systemd.automount 0 0\n",
		"/proc/self/mountinfo":         root + idle,
		"/var/lib/kubelet/config.yaml": head + "systemPartition: {memoryLimit: 1Gi}\n",
		"/etc/kubernetes/kubelet.conf": head + "systemPartition: {memoryLimit: 2Gi}\n",
		OverridePath:                   head + "systemPartition: {memoryLimit: 3Gi}\n",
		dropin:                         head + "systemPartition: {memoryLimit: 4Gi}\n",
	}
	limit := func() string {
		t.Helper()
		c, err := Load(tree(t, files))
		if err != nil {
			t.Fatal(err)
		}
		return string(c.System.JSON)
	}
	if got := limit(); !strings.Contains(got, "1Gi") {
		t.Errorf("all three automounts are idle: %s", got)
	}
	files["/proc/self/mountinfo"] = root + idle + "50 41 0:50 / /etc/kubernetes rw - nfs4 server:/b rw\n"
	if got := limit(); !strings.Contains(got, "3Gi") {
		t.Errorf("/etc/kubernetes is mounted: %s", got)
	}
	delete(files, OverridePath)
	files["/proc/self/mountinfo"] = root + idle + "50 40 0:50 / /etc/openshift rw - nfs4 server:/a rw\n"
	if got := limit(); !strings.Contains(got, "4Gi") {
		t.Errorf("/etc/openshift is mounted: %s", got)
	}
	delete(files, "/var/lib/kubelet/config.yaml")
	files["/proc/self/mountinfo"] = root + idle
	if got := limit(); got != "" {
		t.Errorf("every place is below an idle automount: %s", got)
	}
}

// TestLoadIdleOverride: the override below an idle automount is missing, whatever a look would
// find. It may come with the mount.
func TestLoadIdleOverride(t *testing.T) {
	c, err := Load(tree(t, map[string]string{
		"/etc/fstab":           "server:/b /etc/kubernetes nfs x-systemd.automount 0 0\n",
		"/proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/vda rw\n41 1 0:41 / /etc/kubernetes rw - autofs systemd-1 rw\n",
		OverridePath:           head + "systemPartition: {memoryLimit: 3Gi}\n",
	}))
	if err != nil || !slices.Contains(c.Late.Paths, OverridePath) {
		t.Errorf("%+v, %v; want %s among them", c.Late, err, OverridePath)
	}
}
