package latemount

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nodepartition/internal/hostfs"
)

// tree makes a root with files.
func tree(t *testing.T, files map[string]string) hostfs.FS {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return hostfs.FS(root)
}

func TestFind(t *testing.T) {
	belowVar := []string{"/var/lib/kubelet/config.yaml", "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"}
	missing := append([]string{"/etc/kubernetes/kubelet.conf", "/run/kubelet.conf"}, belowVar...)
	const mounted = "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:16 / /var rw - ext4 /dev/vdb rw\n"
	for name, test := range map[string]struct {
		files map[string]string
		paths []string
		units []string
	}{
		"nothing says so":           {map[string]string{"/var/lib/dpkg/status": ""}, nil, nil},
		"a line in fstab":           {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var ext4 defaults 0 2\n"}, belowVar, []string{"var.mount"}},
		"with a slash at its end":   {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var/lib/ ext4\n"}, belowVar, []string{"var-lib.mount"}},
		"a comment in fstab":        {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "# LABEL=v /var ext4\n#/x /var ext4\n"}, nil, nil},
		"noauto":                    {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var ext4 nofail,noauto 0 2\n"}, nil, nil},
		"mounted already":           {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var ext4\n", "/proc/self/mountinfo": mounted}, nil, nil},
		"another mount below":       {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var ext4\nLABEL=k /var/lib/kubelet ext4\n", "/proc/self/mountinfo": mounted}, belowVar[:1], []string{"var-lib-kubelet.mount"}},
		"a mount unit":              {map[string]string{"/var/lib/dpkg/status": "", "/etc/systemd/system/var.mount": ""}, belowVar, []string{"var.mount"}},
		"a bare /var":               {map[string]string{"/var/README": ""}, belowVar, nil},
		"a mount of something else": {map[string]string{"/var/lib/dpkg/status": "", "/etc/fstab": "LABEL=v /var/lib/kubelet-data ext4\nLABEL=v /home ext4\nswap none swap\nbroken\n"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			late := Find(tree(t, test.files), missing)
			if !slices.Equal(late.Paths, test.paths) || !slices.Equal(late.MountUnits, test.units) {
				t.Errorf("%+v; want the paths %q and %q", late, test.paths, test.units)
			}
		})
	}
}
