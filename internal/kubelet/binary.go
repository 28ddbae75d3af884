package kubelet

import (
	"bytes"
	"io"
	"path"

	"node-partition.io/node-partition/internal/host"
)

// programs lists the paths of a kubelet that was started by its name alone: systemd's search path,
// and the path in images of Flatcar.
var programs = []string{
	"/usr/bin/kubelet",
	"/usr/local/bin/kubelet",
	"/usr/sbin/kubelet",
	"/usr/local/sbin/kubelet",
	"/opt/bin/kubelet",
}

// Knows reports whether the kubelet's program on the node at root contains a text, such as the name
// of a feature gate. A kubelet does not list its gates on its command line, and asking it takes
// credentials. A program that cannot be read counts as containing the text.
func (p Process) Knows(root host.Root, text string) bool {
	names := programs
	if len(p.Args) > 0 && path.IsAbs(p.Args[0]) {
		names = []string{p.Args[0]}
	}
	for _, name := range names {
		file, err := root.Open(name)
		if err != nil {
			continue
		}
		defer file.Close()
		found, err := contains(io.LimitReader(file, maxProgram), text)
		return found || err != nil
	}
	return true
}

// maxProgram bounds a program, in bytes. The kubelet has some 60 MB.
const maxProgram = 1 << 30

// contains reports whether r holds the text. It reads to the text or to the end.
func contains(r io.Reader, text string) (bool, error) {
	const size = 1 << 20
	buffer := make([]byte, 0, size+len(text))
	for {
		n, err := io.ReadFull(r, buffer[len(buffer):len(buffer)+size])
		buffer = buffer[:len(buffer)+n]
		if bytes.Contains(buffer, []byte(text)) {
			return true, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// The text may lie across two pieces.
		tail := min(len(text)-1, len(buffer))
		buffer = append(buffer[:0], buffer[len(buffer)-tail:]...)
	}
}
