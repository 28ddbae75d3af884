package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// CommandError means that a command on a node ended with another status than 0.
type CommandError struct {
	// Node and Command name the node and the command.
	Node, Command string
	// Status is the exit status, and 128 and the number of the signal if one ended the command.
	Status int
	// Stdout and Stderr hold the command's output.
	Stdout, Stderr string
}

// Error returns the command, its status and the end of its output.
func (e *CommandError) Error() string {
	text := lastLines(e.Stderr, 10)
	if text == "" {
		text = lastLines(e.Stdout, 10)
	}
	return fmt.Sprintf("node %s: %s: status %d: %s", e.Node, e.Command, e.Status, text)
}

// connection is the one ssh connection to a node. A handshake takes a second under software
// emulation; a command on an existing connection takes a few milliseconds.
type connection struct {
	node   string
	config *ssh.ClientConfig

	mu     sync.Mutex
	addr   string
	client *ssh.Client
	idle   []*shell // of client
	ran    int      // commands
}

// bannerTimeout is short, because qemu accepts connections before sshd in the guest does.
const (
	bannerTimeout    = 2 * time.Second
	handshakeTimeout = 60 * time.Second
)

// setAddr sets the node's address. A new machine of the same node has another one.
func (c *connection) setAddr(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addr = addr
}

// dial makes one attempt. The caller holds mu.
func (c *connection) dial(ctx context.Context) (*ssh.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	// The server speaks first. Until then sshd does not run yet, and waiting longer would not help.
	reader := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(bannerTimeout))
	if _, err := reader.Peek(4); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("no answer: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	sshConn, channels, requests, err := ssh.NewClientConn(bufferedConn{conn, reader}, c.addr, c.config)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(sshConn, channels, requests), nil
}

// bufferedConn is a connection whose first bytes have been peeked at.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (b bufferedConn) Read(p []byte) (int, error) { return b.reader.Read(p) }

// connect returns the kept connection, or makes it.
func (c *connection) connect(ctx context.Context) (*ssh.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("node %s: ssh to %s: %w", c.node, c.addr, err)
	}
	c.client = client
	return client, nil
}

// drop closes and forgets a connection.
func (c *connection) drop(client *ssh.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		c.client, c.idle = nil, nil
	}
	if client != nil {
		_ = client.Close()
	}
}

func (c *connection) close() {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	c.drop(client)
}

// session opens a channel. If the connection broke since its last use, by a reboot for instance, it
// connects again, once. Nothing has run yet, so nothing runs twice.
func (c *connection) session(ctx context.Context) (*ssh.Client, *ssh.Session, error) {
	for attempt := 0; ; attempt++ {
		client, err := c.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		session, err := openSession(ctx, client)
		if err == nil {
			return client, session, nil
		}
		c.drop(client)
		if attempt > 0 || ctx.Err() != nil {
			return nil, nil, fmt.Errorf("node %s: ssh session: %w", c.node, err)
		}
	}
}

// openSession is NewSession with a timeout: a machine that was reset does not close its
// connections.
func openSession(ctx context.Context, client *ssh.Client) (*ssh.Session, error) {
	type result struct {
		session *ssh.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		session, err := client.NewSession()
		opened <- result{session, err}
	}()
	select {
	case r := <-opened:
		return r.session, r.err
	case <-time.After(handshakeTimeout):
		return nil, errors.New("no answer")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// busPatience is for all commands of systemd: an emulated one that reads all unit files may take
// longer than their default timeout of 25 s.
const busPatience = "export SYSTEMD_BUS_TIMEOUT=120s; "

// run runs a command and returns its standard output. A guest may hang, so a context without a
// deadline gets one.
func (c *connection) run(ctx context.Context, cmd string) (string, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	s, err := c.shell(ctx)
	if err != nil {
		return "", c.failed(ctx, cmd, err)
	}
	r, err := s.run(ctx, cmd)
	if err != nil {
		s.end()
		return r.stdout, c.failed(ctx, cmd, err)
	}
	c.keep(s)
	return r.stdout, c.status(cmd, r)
}

// runWith runs a command with a standard input, in a session of its own.
func (c *connection) runWith(ctx context.Context, cmd string, stdin io.Reader) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	client, session, err := c.session(ctx)
	if err != nil {
		return c.failed(ctx, cmd, err)
	}
	defer session.Close()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	stop := context.AfterFunc(ctx, func() { c.drop(client) })
	err = session.Run(cmd)
	stop()
	var exit *ssh.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.drop(client)
		return c.failed(ctx, cmd, err)
	}
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	if exit != nil {
		r.status = exit.ExitStatus()
	}
	return c.status(cmd, r)
}

// failed returns the error of a command whose end is not known.
func (c *connection) failed(ctx context.Context, cmd string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("node %s: %s: %w: %w", c.node, cmd, context.Cause(ctx), err)
	}
	return fmt.Errorf("node %s: %s: %w", c.node, cmd, err)
}

// status returns the error of a command that ended with another status than 0.
func (c *connection) status(cmd string, r result) error {
	c.mu.Lock()
	c.ran++
	c.mu.Unlock()
	if r.status == 0 {
		return nil
	}
	return &CommandError{Node: c.node, Command: cmd, Status: r.status, Stdout: r.stdout, Stderr: r.stderr}
}

// commands returns the number of commands that have ended.
func (c *connection) commands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// dialThrough connects to an address of the node's own: network is "tcp" or "unix".
func (c *connection) dialThrough(ctx context.Context, network, addr string) (net.Conn, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := client.DialContext(ctx, network, addr)
	if err != nil {
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) && ctx.Err() == nil {
			c.drop(client)
		}
		return nil, fmt.Errorf("node %s: %s %s: %w", c.node, network, addr, err)
	}
	return conn, nil
}
