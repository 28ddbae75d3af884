package trial

import (
	"io"
	"os"
	"path/filepath"
)

// maxSectionBytes is more than a section may have: what is too large is said where it is judged.
const maxSectionBytes = 1 << 20

// ReadSection reads the file to try, or stdin where file is "-", and returns what to call it.
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
