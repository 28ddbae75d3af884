package cri

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Process returns the ID of a container's first process, and whether the container runs. The ID is
// 0 if the runtime does not report it. containerd and CRI-O report it in the verbose information
// for people.
func (c *Client) Process(ctx context.Context, id string) (pid int, running bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, false, c.failed("ContainerStatus "+id, err)
	}
	pid, err = processID(answer.GetInfo())
	if err != nil {
		return 0, false, c.failed("ContainerStatus "+id, err)
	}
	return pid, stateOf(answer.GetStatus().GetState()) == Running, nil
}

// processID returns the ID of the first process from the verbose information, 0 for none.
func processID(verbose map[string]string) (int, error) {
	var info struct {
		PID int `json:"pid"`
	}
	if err := decodeVerbose(verbose, &info); err != nil {
		return 0, err
	}
	return max(info.PID, 0), nil
}
