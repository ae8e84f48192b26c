//go:build unix && !linux

package main

import "syscall"

// groupOfItsOwn keeps Ctrl-C in the terminal from the command.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
