// Package installer brings the programs to one node as a trial, and takes them back. The part of
// the caller, which may be in a pod, copies the program and has the host's systemd run it. The part
// of the host, a service of that systemd, installs, applies and goes back. Both keep the files of
// the installer's folder: its state, its lock, its message.
//
// It uses the other programs as programs. What it may do is in sandbox, and what it knows is in
// record: both are plain data.
package installer
