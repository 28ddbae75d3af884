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
	stdin          io.Writer
	stdout, stderr *bufferedOutput
	// mark is before and behind the output of each command. The shell reads it, so that no list of
	// processes has it. A command that prints all variables ends its own output.
	mark string
	// used is the end of the last command.
	used time.Time
	// end ends the shell and its outputs, and abort all shells of the connection: a node that hangs
	// does not end a single one. ended is closed when the shell has ended.
	end, abort func()
	ended      <-chan struct{}
	client     *ssh.Client
}

// shellLoop reads the mark, and then commands that end with a NUL byte. A command runs in a shell
// of its own: what it changes there, such as its folder, does not stay. It is no part of an AND or
// OR list, in which "set -e" would have no effect. Both outputs get the mark before it and behind
// it, and standard output its status. An empty command only answers.
const shellLoop = busPatience + `
IFS= read -r -d '' lab_mark
while IFS= read -r -d '' lab_command; do
	printf '%s' "$lab_mark" >&2
	printf '%s' "$lab_mark"
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
	if err := session.Start(shellLoop); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = session.Wait()
	}()
	s, err := newShell(stdin, stdout, stderr)
	if err != nil {
		return nil, err
	}
	s.client, s.ended = client, ended
	s.end, s.abort = func() { _ = session.Close() }, func() { _ = client.Close() }
	return s, nil
}

func newShell(stdin io.Writer, stdout, stderr io.Reader) (*shell, error) {
	s := &shell{
		stdin: stdin, stdout: &bufferedOutput{from: stdout}, stderr: &bufferedOutput{from: stderr},
		mark: "lab-" + rand.Text() + " ", used: time.Now(),
	}
	_, err := io.WriteString(stdin, s.mark+"\x00")
	return s, err
}

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
		s.abort()
		e := <-done
		return e.result, context.Cause(ctx)
	}
}

// exchange sends a command and reads both its outputs.
func (s *shell) exchange(cmd string) (r result, err error) {
	if _, err := io.WriteString(s.stdin, cmd+"\x00"); err != nil {
		return r, err
	}
	stderrRead := make(chan error, 1)
	go func() {
		var err error
		r.stderr, err = s.stderr.between(s.mark)
		stderrRead <- err
	}()
	var status string
	r.stdout, err = s.stdout.between(s.mark)
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

// between returns what comes between two marks. It is an error if something comes before them: a
// process that an earlier command has left in the background prints it.
func (o *bufferedOutput) between(mark string) (string, error) {
	before, err := o.until(mark)
	if err == nil && before != "" {
		err = fmt.Errorf("a process of an earlier command prints %q: redirect its output", before)
	}
	if err != nil {
		return "", err
	}
	return o.until(mark)
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

// trustedFor is the time in which a shell needs no proof that its machine is still there. A machine
// that was reset takes longer to answer again. So a command is only sent to a shell that reads it,
// and never sent twice.
const trustedFor = time.Second

// shell returns an idle shell, or a new one.
func (c *connection) shell(ctx context.Context) (*shell, error) {
	for s := c.idleShell(); s != nil; s = c.idleShell() {
		if time.Since(s.used) < trustedFor {
			return s, nil
		}
		answerCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		_, err := s.run(answerCtx, "")
		cancel()
		if err == nil {
			return s, nil
		}
		s.end()
	}
	client, session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	// Start waits for an answer.
	stop := context.AfterFunc(ctx, func() { c.drop(client) })
	s, err := startShell(client, session)
	stop()
	if err != nil {
		_ = session.Close()
		return nil, fmt.Errorf("shell: %w", err)
	}
	return s, nil
}

// idleShell takes a shell of the present connection that runs no command, if there is one.
func (c *connection) idleShell() *shell {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		s := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		select {
		case <-s.ended:
		default:
			return s
		}
	}
	return nil
}

// keep makes a shell available to the next command.
func (c *connection) keep(s *shell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == s.client {
		c.idle = append(c.idle, s)
	}
}
