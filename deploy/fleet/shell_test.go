package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// zeros is the sum in the examples, which a reader replaces.
const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// shellNode is a folder that scripts take for a node, with programs that note their calls.
type shellNode struct {
	*testing.T
	root string
}

// newShellNode returns a node whose curl brings "a package".
func newShellNode(t *testing.T) shellNode {
	t.Helper()
	n := shellNode{t, t.TempDir()}
	n.tool("curl", `while [ "$1" != -o ]; do shift; done; echo "a package" >"$2"`)
	for _, name := range []string{"apt-get", "rpm", "systemctl"} {
		n.tool(name, "")
	}
	return n
}

// tool replaces a program by lines of shell, which note their call.
func (n shellNode) tool(name, text string) {
	n.Helper()
	n.write("bin/"+name, fmt.Sprintf("#!/bin/sh\necho \"${0##*/} $*\" >>%s/calls\n%s\n", n.root, text), 0o755)
}

func (n shellNode) write(path, text string, mode os.FileMode) {
	n.Helper()
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		n.Fatal(err)
	}
}

// sh runs a script on the node.
func (n shellNode) sh(script string) (string, error) {
	n.Helper()
	cmd := exec.Command("/bin/sh", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH="+n.root+"/bin:"+os.Getenv("PATH"), "NODE_PARTITION_ROOT="+n.root)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// calls returns what was called, and forgets it.
func (n shellNode) calls() string {
	n.Helper()
	data, err := os.ReadFile(n.root + "/calls")
	if err != nil && !os.IsNotExist(err) {
		n.Fatal(err)
	}
	if err := os.RemoveAll(n.root + "/calls"); err != nil {
		n.Fatal(err)
	}
	return strings.ReplaceAll(string(data), n.root, "")
}
