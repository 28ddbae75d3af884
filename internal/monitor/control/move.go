package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/unitname"
)

// Move asks the service to move a pod, and returns the slice of the pod after the move.
func Move(ctx context.Context, socket string, pod types.NamespacedName) (slice string, err error) {
	client := overSocket(socket)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://partition-monitor/move/"+url.PathEscape(pod.Namespace)+"/"+url.PathEscape(pod.Name), http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w; it has to run as root", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return "", fmt.Errorf(
			"%w: the service moves pods, and it is not running; see systemctl status %s",
			err, unitname.MonitorService,
		)
	case err != nil:
		return "", fmt.Errorf("%w; partition-monitor status shows whether the pod is being moved", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
