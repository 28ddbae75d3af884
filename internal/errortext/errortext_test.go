package errortext

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestPlain: the words of layers go. The path or the address and the reason stay. The layers have
// made the errors themselves.
func TestPlain(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	_, open := os.Open(none)
	_, stat := os.Stat(none)
	_, dial := net.Dial("unix", none)
	response, get := (&http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", none) },
	}}).Get("http://partition-monitor/ready")
	if get == nil {
		t.Fatal(response.Body.Close())
	}
	connection, err := grpc.NewClient("unix://"+none, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_, call := runtime.NewRuntimeServiceClient(connection).Version(t.Context(), &runtime.VersionRequest{})
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, late := runtime.NewRuntimeServiceClient(connection).Version(ended, &runtime.VersionRequest{})
	const noFile = ": no such file or directory"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"open":       {open, none + noFile},
		"stat":       {fmt.Errorf("--root: %w", stat), "--root: " + none + noFile},
		"dial":       {dial, none + noFile},
		"request":    {get, none + noFile},
		"call":       {fmt.Errorf("container runtime: %w", call), "container runtime: " + none + noFile},
		"late":       {late, "no answer in time"},
		"deadline":   {fmt.Errorf("a: %w", context.DeadlineExceeded), "a: no answer in time"},
		"a reason":   {fmt.Errorf("/a/config.json: %w", fs.ErrNotExist), "/a/config.json: file does not exist"},
		"a sentence": {errors.New("failed to open /sys/a: permission denied"), "failed to open /sys/a: permission denied"},
		"refused":    {errors.New("dial tcp 127.0.0.1:9948: connect: connection refused"), "127.0.0.1:9948: connection refused"},
		"ours":       {errors.New("open questions: read the page: dial again"), "open questions: read the page: dial again"},
	} {
		if got := Plain(test.err.Error()); got != test.want {
			t.Errorf("%s: %q; want %q, of %q", name, got, test.want, test.err)
		}
	}
}
