package main

import (
	"io"
	"net"
)

func echo(args []string) error {
	listener, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return err
	}
	ready()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // the client has gone
		}()
	}
}
