package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	spdyupgrade "k8s.io/streaming/pkg/httpstream/spdy"
)

// The functions here connect to the kubelet's own server, as an API server does for kubectl. A
// static pod has the name in its manifest, a pod of the API the name in the API.

// kubeletAddress is the kubelet's address for kubectl exec, logs, attach and port-forward.
const kubeletAddress = "127.0.0.1:10250"

// Exec runs a command in a container and returns its standard output. If it ends with another
// status than 0, the error is a *CommandError.
func (n *Node) Exec(ctx context.Context, namespace, pod, container string, cmd ...string) (string, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	var stdout, stderr bytes.Buffer
	query := url.Values{"command": cmd, "output": {"1"}, "error": {"1"}}
	err := n.stream(
		ctx,
		"exec",
		namespace,
		pod,
		container,
		query,
		remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr},
	)
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		err = &CommandError{
			Node:    n.Name,
			Command: fmt.Sprintf("%s/%s %s: %s", namespace, pod, container, strings.Join(cmd, " ")),
			Status:  exit.Code,
			Stdout:  stdout.String(),
			Stderr:  stderr.String(),
		}
	}
	return stdout.String(), err
}

// Attach returns a container's output from now on, standard output and standard error, until Close
// or the end of ctx.
func (n *Node) Attach(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	query := url.Values{"output": {"1"}, "error": {"1"}}
	go func() {
		defer cancel()
		err := n.stream(
			ctx,
			"attach",
			namespace,
			pod,
			container,
			query,
			remotecommand.StreamOptions{Stdout: writer, Stderr: writer},
		)
		writer.CloseWithError(err) // nil is the end of the container
	}()
	return attached{reader, cancel}, nil
}

// attached ends the stream when it is closed.
type attached struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (a attached) Close() error {
	a.cancel()
	return a.PipeReader.Close()
}

// Logs returns a container's output so far.
func (n *Node) Logs(ctx context.Context, namespace, pod, container string) (string, error) {
	name, err := n.podName(ctx, namespace, pod)
	if err != nil {
		return "", err
	}
	target := kubeletURL("containerLogs", namespace, name, container)
	body, err := n.get(ctx, &http.Client{Transport: n.kubeletTransport()}, target.String())
	return string(body), err
}

// PortForward connects to a TCP port on a pod's loopback.
func (n *Node) PortForward(ctx context.Context, namespace, pod string, port int) (io.ReadWriteCloser, error) {
	conn, err := n.portForward(ctx, namespace, pod, port)
	if err != nil {
		return nil, fmt.Errorf("node %s: port %d of %s/%s: %w", n.Name, port, namespace, pod, err)
	}
	return conn, nil
}

func (n *Node) portForward(ctx context.Context, namespace, pod string, port int) (*forwarded, error) {
	name, err := n.podName(ctx, namespace, pod)
	if err != nil {
		return nil, err
	}
	transport, err := n.upgrader()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, kubeletURL("portForward", namespace, name).String(), nil)
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NegotiateStreaming(
		spdy.NewUpgraderForStreaming(transport),
		&http.Client{Transport: transport},
		req,
		portforward.PortForwardProtocolV1Name,
	)
	if err != nil {
		return nil, err
	}
	// The protocol needs both, with this one first: it carries errors from the node.
	failure, err := conn.CreateStream(portHeader(v1.StreamTypeError, port))
	if err == nil {
		err = failure.Close() // nothing is sent
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	data, err := conn.CreateStream(portHeader(v1.StreamTypeData, port))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &forwarded{Stream: data, failure: failure, conn: conn}, nil
}

func portHeader(kind string, port int) http.Header {
	header := http.Header{}
	header.Set(v1.StreamType, kind)
	header.Set(v1.PortHeader, strconv.Itoa(port))
	header.Set(v1.PortForwardRequestIDHeader, "0")
	return header
}

// forwarded is one connection to a port of a pod.
type forwarded struct {
	httpstream.Stream
	failure httpstream.Stream
	conn    httpstream.Connection
}

// Read returns, at the end of the stream, the error that the node reports, if any.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	if errors.Is(err, io.EOF) {
		if why, readErr := io.ReadAll(f.failure); readErr == nil && len(why) > 0 {
			return n, errors.New(string(why))
		}
	}
	return n, err
}

func (f *forwarded) Close() error { return f.conn.Close() }

// stream runs one of the kubelet's streaming calls until it ends.
func (n *Node) stream(
	ctx context.Context,
	call, namespace, pod, container string,
	query url.Values,
	options remotecommand.StreamOptions,
) error {
	fail := func(err error) error {
		return fmt.Errorf("node %s: %s %s/%s %s: %w", n.Name, call, namespace, pod, container, err)
	}
	name, err := n.podName(ctx, namespace, pod)
	if err != nil {
		return err
	}
	transport, err := n.upgrader()
	if err != nil {
		return fail(err)
	}
	target := kubeletURL(call, namespace, name, container)
	target.RawQuery = query.Encode()
	executor, err := remotecommand.NewSPDYExecutorForTransports(
		transport,
		spdy.NewUpgraderForStreaming(transport),
		http.MethodPost,
		target,
	)
	if err != nil {
		return fail(err)
	}
	if err := executor.StreamWithContext(ctx, options); err != nil {
		return fail(err)
	}
	return nil
}

func kubeletURL(elements ...string) *url.URL {
	return &url.URL{Scheme: "https", Host: kubeletAddress, Path: "/" + strings.Join(elements, "/")}
}

// kubeletTransport connects through the node's ssh connection, which has verified the node: the
// kubelet's certificate has no signer.
func (n *Node) kubeletTransport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return n.Dial(ctx, network, addr)
		},
	}
}

func (n *Node) upgrader() (*spdyupgrade.SpdyRoundTripper, error) {
	return spdyupgrade.NewRoundTripperWithConfig(spdyupgrade.RoundTripperConfig{UpgradeTransport: n.kubeletTransport()})
}

// podName returns the kubelet's name for a pod. A static pod's name ends with the node's.
func (n *Node) podName(ctx context.Context, namespace, name string) (string, error) {
	pods, err := n.Pods(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range pods {
		if p.Namespace == namespace && (p.Name == name || p.Name == name+"-"+n.Hostname) {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("node %s: %w: %s/%s: the kubelet has: %s", n.Name, errNoPod, namespace, name, describePods(pods))
}
