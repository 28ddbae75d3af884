package fakenode

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/node"
	"nodepartition/internal/node/options"
	"nodepartition/internal/podsapi"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/podmove/nri"
)

// Options returns the options of the command line without flags.
func (n *Node) Options() options.Options {
	h := n.Host()
	return options.Options{
		Node: h, NRI: h.Path(nri.DefaultSocket), PodsAPI: h.Path(podsapi.DefaultSocket), Mode: podmove.Auto,
		Events: true,
		Eviction: options.Eviction{
			Kubeconfig: options.KubeconfigAuto, Protected: evict.DefaultProtected, Cooldown: 5 * time.Minute,
		},
	}
}

// KeptNamespaces returns the namespaces in members.json, nil without the file.
func (n *Node) KeptNamespaces() []string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Root, node.MembersFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var m node.Members
	if err = errors.Join(err, json.Unmarshal(data, &m)); err != nil {
		n.t.Fatal(err)
	}
	return m.Partitions[0].Namespaces
}

// MonitorAnswers serves /readyz as a running monitor does.
func MonitorAnswers(t *testing.T, status int, text string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // fails if the client has disconnected
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
