package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
)

// MovePod asks the service to move a pod, and returns the slice of the pod after the move.
func MovePod(ctx context.Context, socket string, pod types.NamespacedName) (slice string, err error) {
	path := "/move/" + url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name)
	text, answered, err := request(ctx, socket, http.MethodPost, path)
	switch {
	case answered, errors.Is(err, fs.ErrPermission):
		return text, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return "", fmt.Errorf(
			"the service moves pods, and it is not running; see systemctl status %s (%w)",
			partition.MonitorService, err,
		)
	}
	return "", fmt.Errorf("%w; partition-monitor status shows whether the pod is being moved", err)
}
