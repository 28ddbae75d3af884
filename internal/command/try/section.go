package try

import (
	"io"
	"os"
	"path/filepath"
)

// maxSectionBytes bounds the read. A section may have less: judge reports one that is too large.
const maxSectionBytes = 1 << 20

// ReadSection reads the file to try, or stdin if file is "-". name is the path or "standard input",
// for messages.
func ReadSection(stdin io.Reader, file string) (name string, data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxSectionBytes))
		return "standard input", data, err
	}
	if name, err = filepath.Abs(file); err != nil {
		return "", nil, err
	}
	opened, err := os.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer opened.Close()
	data, err = io.ReadAll(io.LimitReader(opened, maxSectionBytes))
	return name, data, err
}
