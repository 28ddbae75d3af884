package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// Report is what the service answers about the node: its last pass, and the memory of its
// partitions.
type Report struct {
	podmove.Report
	Partitions []Memory `json:"partitions"`
}

// Memory is the memory of a partition by the last poll of its eviction. Amounts are in bytes.
type Memory struct {
	Name unitname.PartitionName `json:"name"`
	// Time of the poll.
	Time time.Time `json:"time"`
	// UsedBytes is the memory that the kernel cannot reclaim, which eviction compares with the limit,
	// and UsedPeakBytes the largest of the last evict.PeakWindow.
	UsedBytes     uint64 `json:"usedBytes"`
	UsedPeakBytes uint64 `json:"usedPeakBytes"`
}

// LastReport queries the service for its report, with the reasons why pods are misplaced. It
// returns an empty one if the service does not answer.
func LastReport(ctx context.Context, listen string) Report {
	status, text, err := get(ctx, listen, "/report")
	var report Report
	if err != nil || status != http.StatusOK || json.Unmarshal(text, &report) != nil {
		return Report{}
	}
	return report
}

// maxAnswer bounds a response of the service. A thousand pods take half a megabyte.
const maxAnswer = 8 << 20

// answerTimeout bounds a request to the service.
const answerTimeout = 2 * time.Second

// errNoService means that the service does not listen.
var errNoService = errors.New("not queried: --listen has no address")

// get sends a request to the service at the address of its flag --listen.
func get(ctx context.Context, listen, path string) (status int, text []byte, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return 0, nil, errNoService
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		listen = net.JoinHostPort("127.0.0.1", port)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	// The default client would ask the proxy of the environment for a host that is not a loopback
	// address, and the service is on this node.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, text, err
}

// Ready asks the service whether it is ready, and returns "ready" or why it is not.
func Ready(ctx context.Context, listen string) string {
	status, text, err := get(ctx, listen, "/readyz")
	var refused *net.OpError
	switch {
	case errors.As(err, &refused):
		return "not running (" + refused.Error() + "); see systemctl status partition-monitor.service"
	case err != nil:
		return err.Error()
	case status == http.StatusOK:
		return "ready"
	}
	return "not ready: " + strings.TrimSpace(string(text))
}

// Metrics returns the page of metrics of the service.
func Metrics(ctx context.Context, listen string) (string, error) {
	status, page, err := get(ctx, listen, "/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("metrics: status %d", status)
	}
	return string(page), err
}
