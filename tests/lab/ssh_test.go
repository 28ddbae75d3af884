package lab

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshServer is the sshd of a node. It runs commands on this machine.
type sshServer struct {
	addr string

	mu    sync.Mutex
	conns []net.Conn
	execs []*exec.Cmd
	deaf  bool // it does not answer requests to run a command
}

// startSSHServer returns a server, and a connection to it that has not been used.
func startSSHServer(t *testing.T) (*sshServer, *connection) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{addr: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			go s.serve(conn, config)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		s.cut()
	})
	c := &connection{node: "n", addr: s.addr, config: &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()}}
	t.Cleanup(c.close)
	return s, c
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for newChannel := range channels {
		channel, requests, err := newChannel.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range requests {
				s.exec(channel, request)
			}
		}()
	}
}

// exec runs a command, and closes its channel when it ends.
func (s *sshServer) exec(channel ssh.Channel, request *ssh.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var payload struct{ Command string }
	if request.Type != "exec" || s.deaf || ssh.Unmarshal(request.Payload, &payload) != nil {
		return
	}
	cmd := exec.Command("bash", "-c", payload.Command)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	s.execs = append(s.execs, cmd)
	_ = request.Reply(true, nil)
	go func() {
		buffer := make([]byte, 1<<10)
		for {
			n, err := channel.Read(buffer)
			if _, writeErr := stdin.Write(buffer[:n]); err != nil || writeErr != nil {
				_ = stdin.Close()
				return
			}
		}
	}()
	go func() {
		_ = cmd.Wait()
		status := struct{ Status uint32 }{uint32(cmd.ProcessState.ExitCode())}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&status))
		_ = channel.Close()
	}()
}

// started returns the commands that the server was asked to run.
func (s *sshServer) started() []*exec.Cmd {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.execs
}

// cut ends all connections.
func (s *sshServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *sshServer) setDeaf(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

func wantOutput(t *testing.T, c *connection, cmd, want string) {
	t.Helper()
	if out, err := c.run(t.Context(), cmd); err != nil || out != want {
		t.Errorf("%s: %q, error %v; want %q", cmd, out, err, want)
	}
}

// TestConnectionShells: commands that follow each other share a shell, and commands that run at the
// same time do not.
func TestConnectionShells(t *testing.T) {
	s, c := startSSHServer(t)
	wantOutput(t, c, "echo a", "a\n")
	wantOutput(t, c, "echo b", "b\n")
	if n := len(s.started()); n != 1 {
		t.Errorf("%d shells for two commands", n)
	}
	fifo := t.TempDir() + "/fifo"
	wantOutput(t, c, "mkfifo "+fifo, "")
	read := make(chan string)
	go func() {
		out, _ := c.run(t.Context(), "cat "+fifo)
		read <- out
	}()
	wantOutput(t, c, "echo through >"+fifo, "")
	if out := <-read; out != "through\n" || c.commands() != 5 {
		t.Errorf("%q; %d commands", out, c.commands())
	}
	var failed *CommandError
	if _, err := c.run(t.Context(), "echo out; echo why >&2; exit 3"); !errors.As(err, &failed) ||
		failed.Status != 3 || failed.Stdout != "out\n" || failed.Stderr != "why\n" {
		t.Errorf("%+v", failed)
	}
	if err := c.runWith(t.Context(), "read -r word && test $word = given", strings.NewReader("given\n")); err != nil {
		t.Error(err)
	}
	if err := c.runWith(t.Context(), "exit 4", strings.NewReader("")); !errors.As(err, &failed) || failed.Status != 4 {
		t.Error(err)
	}
}

// TestConnectionLostShell: an idle shell that has ended, or whose connection has, fails no command.
func TestConnectionLostShell(t *testing.T) {
	for name, lose := range map[string]func(*sshServer){
		"killed": func(s *sshServer) { _ = s.started()[0].Process.Kill() },
		"cut":    (*sshServer).cut,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startSSHServer(t)
			wantOutput(t, c, "echo before", "before\n")
			ended := c.idle[0].ended
			lose(s)
			<-ended
			wantOutput(t, c, "echo after", "after\n")
		})
	}
}

// TestConnectionOneShellEnds: a command that ends its shell does not end the commands beside it.
func TestConnectionOneShellEnds(t *testing.T) {
	_, c := startSSHServer(t)
	fifo := t.TempDir() + "/fifo"
	wantOutput(t, c, "mkfifo "+fifo, "")
	read := make(chan error)
	go func() {
		_, err := c.run(t.Context(), "cat "+fifo)
		read <- err
	}()
	if _, err := c.run(t.Context(), "exec 3>"+fifo+"; kill -KILL $$"); err == nil {
		t.Error("a command without a status succeeded")
	}
	if err := <-read; err != nil {
		t.Errorf("the command beside it: %v", err)
	}
}

// TestConnectionHangs: a node that does not answer ends a command with its context, whether its
// shell runs yet or not.
func TestConnectionHangs(t *testing.T) {
	s, c := startSSHServer(t)
	why := errors.New("enough")
	hangs := func(cmd string) {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
		defer cancel()
		if _, err := c.run(ctx, cmd); !errors.Is(err, why) {
			t.Errorf("%s: %v", cmd, err)
		}
	}
	s.setDeaf(true)
	hangs("echo a")
	s.setDeaf(false)
	wantOutput(t, c, "echo b", "b\n")
	hangs("exec sleep 2 >/dev/null 2>&1")
	wantOutput(t, c, "echo c", "c\n")
}
