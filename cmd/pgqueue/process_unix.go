//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// signalGroup signals a process and what it has started. A group that is gone is os.ErrProcessDone.
func signalGroup(p *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-p.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
