package kubeletconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodepartition/internal/hostfs"
)

// TestTrialBroken: a trial that cannot be read is an error that names it. The override is no
// substitute: its section would come into force in the middle of a trial.
func TestTrialBroken(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, trial := range map[string]string{
		"no YAML": "systemPartition: {", "another kind": "apiVersion: v1\nkind: Pod\n", "empty": "", "a folder": "folder",
	} {
		root := t.TempDir()
		put := func(path, content string) {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put("/var/lib/kubelet/config.yaml", head)
		put(OverridePath, head+"systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\n")
		if trial == "folder" {
			put(TrialPath+"/file", "")
		} else {
			put(TrialPath, trial)
		}
		c, err := Load(hostfs.FS(root))
		if err == nil || !strings.Contains(err.Error(), TrialPath) || len(c.Section) > 0 {
			t.Errorf("%s: section %s, %v; want no section, and an error of %s", name, c.Section, err, TrialPath)
		}
	}
}
