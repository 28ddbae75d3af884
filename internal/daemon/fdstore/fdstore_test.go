package fdstore

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// manager is the notification socket of systemd, with a store.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return manager{t, conn}
}

// message returns the next message and the file that came with it, under the name of the message.
func (m manager) message() (string, *os.File) {
	m.t.Helper()
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := m.conn.ReadMsgUnix(text, rights)
	if err != nil {
		m.t.Fatal(err)
	}
	if nr == 0 {
		return string(text[:n]), nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil || len(messages) != 1 {
		m.t.Fatal(messages, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		m.t.Fatal(fds, err)
	}
	_, name, _ := strings.Cut(string(text[:n]), "FDNAME=")
	return string(text[:n]), os.NewFile(uintptr(fds[0]), name)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// duplicate returns a socket as systemd passes it, with a name.
func duplicate(t *testing.T, listener net.Listener, name string) *os.File {
	t.Helper()
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var file *os.File
	err = raw.Control(func(fd uintptr) {
		var made int
		if made, err = unix.Dup(int(fd)); err == nil {
			file = os.NewFile(uintptr(made), name)
		}
	})
	if file == nil {
		t.Fatal(err)
	}
	return file
}

// TestRestart: a request that comes while the service restarts is answered by the next process.
func TestRestart(t *testing.T) {
	systemd := newManager(t)
	const address = "127.0.0.1:0"
	first := listen(t, address)
	if err := new(Store).Keep(address, first); err != nil {
		t.Fatal(err)
	}
	said, kept := systemd.message()
	if want := "FDSTORE=1\nFDPOLL=0\nFDNAME=listen.127.0.0.1_0"; said != want || kept == nil {
		t.Fatalf("systemd has %q and %v, want %q with a file", said, kept, want)
	}
	at := first.Addr().String()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + at)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		answered <- string(text)
	}()
	store, err := take([]*os.File{kept}, []string{address})
	second := store.Listener(address)
	if err != nil || second == nil {
		t.Fatal(err, "the next process has no socket")
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "second") })}
	go func() { _ = server.Serve(second) }()
	defer server.Close()
	if got := <-answered; got != "second" {
		t.Errorf("the request got %q", got)
	}
	if again := store.Listener(address); again != nil {
		t.Error("a socket is given twice")
	}
}

// TestOtherAddress: a socket for a former --listen leaves the store, and does not stay open.
func TestOtherAddress(t *testing.T) {
	systemd := newManager(t)
	old := listen(t, "127.0.0.1:0")
	passed := duplicate(t, old, "listen.127.0.0.1_9948")
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := take([]*os.File{passed}, []string{"127.0.0.1:9949"})
	if err != nil {
		t.Error(err)
	}
	if said, _ := systemd.message(); said != "FDSTOREREMOVE=1\nFDNAME=listen.127.0.0.1_9948" {
		t.Errorf("systemd has %q", said)
	}
	if store.Listener("127.0.0.1:9949") != nil {
		t.Error("the socket of another address is used")
	}
	listen(t, old.Addr().String()) // fails while one is open
}

// TestSocketUnit: the socket of an operator's unit is used in place of the address, and stays.
func TestSocketUnit(t *testing.T) {
	newManager(t)
	listener := listen(t, "127.0.0.1:0")
	passed := duplicate(t, listener, "partition-monitor.socket")
	store, err := take([]*os.File{passed}, []string{"127.0.0.1:9948"})
	got := store.Listener("127.0.0.1:9948")
	if err != nil || got == nil || got.Addr().String() != listener.Addr().String() {
		t.Fatalf("the socket of the unit is not used: %v", got)
	}
	_ = got.Close()
}

// TestWithoutSystemd: nothing is stored, and nothing fails.
func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	store, err := take(nil, []string{"127.0.0.1:9948"})
	if err != nil || store.Listener("127.0.0.1:9948") != nil {
		t.Error(err, "a socket from nowhere")
	}
	if err := store.Keep("127.0.0.1:9948", listen(t, "127.0.0.1:0")); err != nil {
		t.Error(err)
	}
	if err := store.Drop("127.0.0.1:9948"); err != nil {
		t.Error(err)
	}
}
