package charttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// TestPacked: Helm takes the chart that "make chart" packs. It names the image that was built with
// it by its digest.
func TestPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := filepath.Join(dir, "list")
	if err := os.WriteFile(list, []byte("0644 "+os.DevNull+" /partition-installer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "-C", "../../image", "run", ".", "-version=v0.1.0-rc.1", "-files=amd64="+list,
		"-layout="+filepath.Join(dir, "image"), "-chart="+dir)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimSpace(string(out))
	chart, err := loader.LoadFile(filepath.Join(dir, "node-partition-0.1.0-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	if m := chart.Metadata; m.Version != "0.1.0-rc.1" || m.AppVersion != "v0.1.0-rc.1" || len(chart.Files) > 0 {
		t.Errorf("version %s, of the programs %s; beside the chart it has %d files", m.Version, m.AppVersion, len(chart.Files))
	}
	values, err := chartutil.ToRenderValues(chart, parse(t, least), chartutil.ReleaseOptions{Name: "fleet", Namespace: "fleet"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"configmap.yaml": "--version=v0.1.0-rc.1", "roll.yaml": "registry.example/node-partition-installer@" + digest,
	} {
		if !strings.Contains(rendered["node-partition/templates/"+name], want) {
			t.Errorf("%s does not have %s", name, want)
		}
	}
}
