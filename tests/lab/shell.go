package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// shell is a shell on a node that runs one command after another. On an emulated node an ssh
// session of its own costs an empty command 46 ms of CPU time, and a fork of a running shell 10 ms
// (OpenSSH 10.0, bash 5.2).
type shell struct {
	client *ssh.Client
	stdin  io.Writer
	// end ends the shell and its outputs.
	end func()
	// mark ends the output of a command. No command knows it.
	mark           string
	stdout, stderr *bufferedOutput
	// used is the end of the last command.
	used time.Time
}

// shellLoop reads commands that end with a NUL byte. A command runs in a shell of its own: what it
// changes there, such as its folder, does not stay. It is no part of an AND or OR list, in which
// "set -e" would have no effect. After its end both outputs get the mark, and standard output its
// status. An empty command only answers.
const shellLoop = busPatience + `
while IFS= read -r -d '' lab_command; do
	lab_status=0
	if [ -n "$lab_command" ]; then
		(eval "$lab_command") </dev/null
		lab_status=$?
	fi
	printf '%s' "$lab_mark" >&2
	printf '%s%d\n' "$lab_mark" "$lab_status"
done`

// startShell starts a shell in a session of its own.
func startShell(client *ssh.Client, session *ssh.Session) (*shell, error) {
	stdin, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := session.StderrPipe()
	if err != nil {
		return nil, err
	}
	// Only the end of the connection surely ends the outputs: not every sshd passes on signals.
	s := newShell(stdin, stdout, stderr, func() { _ = client.Close() })
	s.client = client
	return s, session.Start(s.script())
}

func newShell(stdin io.Writer, stdout, stderr io.Reader, end func()) *shell {
	return &shell{
		stdin: stdin, stdout: &bufferedOutput{from: stdout}, stderr: &bufferedOutput{from: stderr},
		end: end, mark: "lab-" + rand.Text() + " ", used: time.Now(),
	}
}

// script returns what the shell runs.
func (s *shell) script() string { return "lab_mark=" + quote(s.mark) + "; " + shellLoop }

// result is the outcome of a command that ended.
type result struct {
	stdout, stderr string
	// status is its exit status, and 128 and the signal's number if a signal ended it.
	status int
}

// run runs one command. After an error the shell is of no use any more.
func (s *shell) run(ctx context.Context, cmd string) (result, error) {
	if strings.ContainsRune(cmd, 0) {
		return result{}, errors.New("a command with a NUL byte")
	}
	type ended struct {
		result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		r, err := s.exchange(cmd)
		done <- ended{r, err}
	}()
	select {
	case e := <-done:
		s.used = time.Now()
		return e.result, e.err
	case <-ctx.Done():
		s.end()
		e := <-done
		return e.result, context.Cause(ctx)
	}
}

// exchange sends a command and reads both its outputs to their marks.
func (s *shell) exchange(cmd string) (r result, err error) {
	if _, err := io.WriteString(s.stdin, cmd+"\x00"); err != nil {
		return r, err
	}
	stderrRead := make(chan error, 1)
	go func() {
		var err error
		r.stderr, err = s.stderr.until(s.mark)
		stderrRead <- err
	}()
	var status string
	r.stdout, err = s.stdout.until(s.mark)
	if err == nil {
		status, err = s.stdout.until("\n")
	}
	if err = errors.Join(err, <-stderrRead); err != nil {
		return r, err
	}
	r.status, err = strconv.Atoi(status)
	return r, err
}

// bufferedOutput is an output of which one part is read after another.
type bufferedOutput struct {
	from io.Reader
	read []byte
}

// until returns what comes before a mark. At an error it returns what came.
func (o *bufferedOutput) until(mark string) (string, error) {
	chunk := make([]byte, 32<<10)
	for searched := 0; ; {
		if i := bytes.Index(o.read[searched:], []byte(mark)); i >= 0 {
			text := string(o.read[:searched+i])
			o.read = o.read[searched+i+len(mark):]
			return text, nil
		}
		searched = max(0, len(o.read)-len(mark)+1)
		n, err := o.from.Read(chunk)
		o.read = append(o.read, chunk[:n]...)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return string(o.read), err
		}
	}
}

// trustedAfter is the time in which a shell needs no proof that it is still there. A machine that
// was reset takes longer to answer again. So a command is sent to a shell that has read it, and
// never sent twice.
const trustedAfter = time.Second

// shell returns an idle shell, or a new one.
func (c *connection) shell(ctx context.Context) (*shell, error) {
	for {
		s := c.idleShell()
		if s == nil {
			break
		}
		if time.Since(s.used) < trustedAfter {
			return s, nil
		}
		answerCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		_, err := s.run(answerCtx, "")
		cancel()
		if err == nil {
			return s, nil
		}
		c.drop(s.client)
	}
	client, session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	s, err := startShell(client, session)
	if err != nil {
		c.drop(client)
		return nil, fmt.Errorf("node %s: shell: %w", c.node, err)
	}
	return s, nil
}

// idleShell takes a shell of the present connection that runs no command, if there is one.
func (c *connection) idleShell() *shell {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	s := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return s
}

// keep makes a shell available to the next command.
func (c *connection) keep(s *shell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == s.client {
		c.idle = append(c.idle, s)
	}
}
