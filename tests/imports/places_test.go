package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// separator matches the slash that separates names: an operand, or an argument of a function for
// texts or paths.
var separator = regexp.MustCompile(`(\+|[!=]=) ?"/"|"/" ?\+|\b(strings|path|filepath)\.\w+\(.*`)

// TestOnePlace: whoever reads a node is told which one, and whoever is about a partition which one.
// What names the running node, or the system partition and no other, is in one place. A literal
// would read the machine that runs the program, whatever --root says.
func TestOnePlace(t *testing.T) {
	t.Parallel()
	rules := []struct {
		names   *regexp.Regexp
		allowed []string // the beginnings of the files that may have it
	}{
		{regexp.MustCompile(`"/"`), []string{"internal/host/host.go", "cmd/partition-installer/main.go"}},
		{regexp.MustCompile(`\bcgroups\.Mount\b`), []string{"internal/host/host.go"}},
		{regexp.MustCompile(`"/sys/fs/cgroup["/]`), []string{"internal/partition/mount.go"}},
		{regexp.MustCompile(`\bhost\.This\b`), []string{"cmd/partition-monitor/main.go"}},
		// What a node follows beside a kubelet that makes the system partition itself knows it, too.
		{regexp.MustCompile(`\bpartition\.System\b`), []string{"pkg/slices/config/", "internal/node/config.go"}},
	}
	seen := make([]bool, len(rules))
	for _, top := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			for line := range strings.Lines(string(source)) {
				line, _, _ = strings.Cut(line, "//")
				if strings.Contains(line, `"/"`) {
					line = separator.ReplaceAllString(line, "")
				}
				for i, r := range rules {
					if !r.names.MatchString(line) {
						continue
					}
					seen[i] = true
					if !slices.ContainsFunc(r.allowed, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
						t.Errorf("%s: %s: take it as a parameter; %s alone has it", name, strings.TrimSpace(line), strings.Join(r.allowed, " and "))
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Errorf("%s: this test does not find it any more", rules[i].names)
	}
}
