package charttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// pack packs the chart with a version, what git describe prints, and the digest of an image.
func pack(described, digest, dir string) ([]byte, error) {
	cmd := exec.Command("../../deploy/image/chart", described, digest, dir)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	return cmd.CombinedOutput()
}

// TestPackedVersion: what git describe prints becomes a semantic version.
func TestPackedVersion(t *testing.T) {
	t.Parallel()
	for described, want := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-5-g3f1fd6b": "0.1.0-5-g3f1fd6b", "v0.1.0-dirty": "0.1.0-dirty",
		"0123456": "0.0.0-g0123456", "3f1fd6b-dirty": "0.0.0-g3f1fd6b-dirty",
		"unknown": "", "": "", "v1": "", "v01.2.3": "", "v1.2.3+meta": "",
	} {
		dir := t.TempDir()
		out, err := pack(described, "", dir)
		found, globErr := filepath.Glob(filepath.Join(dir, "*"))
		if globErr != nil {
			t.Fatal(globErr)
		}
		var files []string
		if want != "" {
			files = []string{filepath.Join(dir, "install.yaml"), filepath.Join(dir, "node-partition-"+want+".tgz")}
		}
		if (err == nil) != (want != "") || !slices.Equal(found, files) {
			t.Errorf("%q: %q, %v, %s; want %q", described, found, err, out, want)
		}
	}
}

// TestPacked: Helm takes the chart that "make chart" packs. It names the image by its digest, and
// install.yaml is what it renders.
func TestPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest := "sha256:" + strings.Repeat("0a", 32)
	if out, err := pack("v0.1.0-rc.1", digest, dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	chart, err := loader.LoadFile(filepath.Join(dir, "node-partition-0.1.0-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	if m := chart.Metadata; m.Version != "0.1.0-rc.1" || m.AppVersion != "v0.1.0-rc.1" || len(chart.Files) != 1+len(chart.CRDObjects()) {
		t.Errorf("version %s, of the programs %s; of %d other files %d are definitions; want the README beside them", m.Version, m.AppVersion, len(chart.Files), len(chart.CRDObjects()))
	}
	values, err := chartutil.ToRenderValues(chart, nil, chartutil.ReleaseOptions{Name: namespace, Namespace: namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		t.Fatal(err)
	}
	if want := "image: \"registry.example/node-partition@" + digest; !strings.Contains(rendered["node-partition/templates/deployment.yaml"], want) {
		t.Errorf("the Deployment does not have %s", want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range rendered {
		part = strings.ReplaceAll(strings.TrimSpace(part), "managed-by: Helm", "managed-by: install.yaml")
		if !strings.HasSuffix(name, ".txt") && !strings.Contains(string(text), part) {
			t.Errorf("install.yaml does not have what Helm renders of %s", name)
		}
	}
}
