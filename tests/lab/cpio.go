package lab

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// cpioWriter writes an archive that the kernel unpacks as its initial RAM disk: cpio's format newc
// (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
type cpioWriter struct {
	w io.Writer
	// ino is the inode number of the last member. Members of one number would be one file.
	ino int
}

// The types of members, as in st_mode.
const (
	cpioFolder = 0o040000
	cpioFile   = 0o100000
	cpioLink   = 0o120000
)

// cpioEnd is the name of the last member.
const cpioEnd = "TRAILER!!!"

// addTar adds the members of a tar, except those that leaveOut names. Names have no slash at their
// beginning. A hard link becomes a symbolic one, because the kernel wants to know at a file that a
// link to it follows. Devices and pipes are left out.
func (c *cpioWriter) addTar(root io.Reader, leaveOut func(name string) bool) error {
	r := tar.NewReader(root)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if leaveOut(name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = c.add(name, cpioFolder, h, 0, strings.NewReader(""))
		case tar.TypeReg:
			err = c.add(name, cpioFile, h, h.Size, r)
		case tar.TypeSymlink:
			err = c.add(name, cpioLink, h, int64(len(h.Linkname)), strings.NewReader(h.Linkname))
		case tar.TypeLink:
			target := path.Clean("/" + h.Linkname)
			err = c.add(name, cpioLink, h, int64(len(target)), strings.NewReader(target))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// add adds a member with the mode, owner and time of a tar's.
func (c *cpioWriter) add(name string, kind int64, h *tar.Header, size int64, content io.Reader) error {
	c.ino++
	const fileLimit = 1 << 32
	if size >= fileLimit {
		return fmt.Errorf("%d bytes: want less than %d", size, int64(fileLimit))
	}
	// Inode, mode, owner, group, links, time, size, two numbers of a device twice, length of the name
	// with its end, and a checksum that this format does not have.
	header := "070701"
	for _, field := range []int64{
		int64(c.ino), kind | h.Mode&0o7777, int64(h.Uid), int64(h.Gid), 1, max(0, h.ModTime.Unix()), size,
		0, 0, 0, 0, int64(len(name) + 1), 0,
	} {
		header += fmt.Sprintf("%08X", uint32(field))
	}
	if err := c.padded(int64(len(header)+len(name)+1), strings.NewReader(header+name+"\x00")); err != nil {
		return err
	}
	return c.padded(size, content)
}

// end adds the last member.
func (c *cpioWriter) end() error { return c.add(cpioEnd, 0, &tar.Header{}, 0, strings.NewReader("")) }

// padded writes so many bytes, and zeros up to the next multiple of four.
func (c *cpioWriter) padded(size int64, content io.Reader) error {
	if _, err := io.CopyN(c.w, content, size); err != nil {
		return err
	}
	_, err := io.WriteString(c.w, "\x00\x00\x00"[:(4-size%4)%4])
	return err
}
