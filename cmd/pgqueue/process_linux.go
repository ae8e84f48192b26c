package main

import "syscall"

// groupOfItsOwn keeps Ctrl-C in the terminal from the command, and makes the kernel kill it when the worker is killed.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
