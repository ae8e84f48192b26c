package devserver

import "syscall"

// dieWithUs makes the kernel send the signal to the child when the thread that started it ends, so also when our
// process is killed the hard way. Go sets it after it has changed the user, which would clear it.
func dieWithUs(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
