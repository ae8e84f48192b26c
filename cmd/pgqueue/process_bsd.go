//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// groupOfItsOwn keeps Ctrl-C in the terminal from the command.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func groupAlive(p *os.Process) bool { return syscall.Kill(-p.Pid, 0) == nil }
