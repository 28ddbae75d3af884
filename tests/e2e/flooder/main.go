// Command flooder runs on a node during a test, as an account that wants to take the memory of the
// monitor or to keep it from answering, and as a Prometheus beside it.
//
//	flooder hold ADDRESS CONNECTIONS  opens connections, and again those that are closed
//	flooder deaf ADDRESS READERS      asks for metrics and does not read them
//	flooder ask URL CLIENTS           asks with wrong passwords, on new connections and on old ones
//	flooder scrape URL PASSWORD       scrapes every few seconds, and prints how long it took
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timeout is the scrape_timeout of Prometheus where none is set.
	timeout  = 10 * time.Second
	interval = 3 * time.Second
	// openers open connections side by side.
	openers = 8
	// report is the number of connections after which an opener prints a line.
	report = 250
)

func main() {
	mode, address, last := os.Args[1], os.Args[2], os.Args[3]
	if mode == "scrape" {
		scrape(address, last)
		return
	}
	n, err := strconv.Atoi(last)
	if err != nil {
		fmt.Fprintln(os.Stderr, "flooder:", err)
		os.Exit(1)
	}
	switch mode {
	case "hold":
		for i := range openers {
			go hold(address, i, n/openers)
		}
	case "deaf":
		for range n {
			go deaf(address)
		}
	case "ask":
		for i := range n {
			go ask(address, i)
		}
	}
	select {}
}

// hold keeps n connections. It opens all, and then each again in turn.
func hold(address string, opener, n int) {
	open := make([]net.Conn, n)
	// Each address of a client has some 28,000 ports.
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(opener+1))}}
	for round := 0; ; round++ {
		for i := range open {
			if open[i] != nil {
				_ = open[i].Close()
				<-time.After(time.Millisecond)
			}
			open[i], _ = dialer.Dial("tcp", address)
			if open[i] != nil {
				_, _ = io.WriteString(open[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}
			if (i+1)%report == 0 {
				fmt.Println("opened", report, "connections, round", round)
			}
		}
	}
}

// deaf asks for metrics and leaves them in the buffers of the kernel, which are small.
func deaf(address string) {
	small := func(_, _ string, c syscall.RawConn) error {
		var failed error
		return errors.Join(c.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1024),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536),
			)
		}), failed)
	}
	for {
		dialer := net.Dialer{Control: small}
		if conn, err := dialer.Dial("tcp", address); err == nil {
			_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
			<-time.After(interval)
			_ = conn.Close()
		}
	}
}

func client(keepAlive bool) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: !keepAlive, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

func ask(url string, i int) {
	by := client(i%2 == 0)
	for n := 0; ; n++ {
		_, _ = get(by, url, fmt.Sprint("wrong-", i, "-", n))
	}
}

func scrape(url, password string) {
	by := client(true)
	for {
		begin := time.Now()
		page, err := get(by, url, password)
		took := time.Since(begin).Round(time.Millisecond)
		switch {
		case err != nil:
			fmt.Println("failed after", took, err)
		case !strings.Contains(page, "\nnodepartition_info{"):
			fmt.Printf("failed after %s: %.100q\n", took, page)
		default:
			fmt.Println("scraped in", took)
		}
		<-time.After(interval)
	}
}

func get(by *http.Client, url, password string) (string, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if password != "" {
		request.SetBasicAuth("prometheus", password)
	}
	answer, err := by.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	return string(page), err
}
