package pgtest

import (
	"os"
	"syscall"
)

// memoryDir is where a throwaway server does best: making a database there is many times faster than on most disks,
// and every test makes one. It is "", the system's temporary folder, when TMPDIR asks for a place or memory is short,
// as in containers with their 64 MB.
func memoryDir() string {
	const dir, enough, open = "/dev/shm", 2 << 30, 0o777
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != open {
		return ""
	}
	var space syscall.Statfs_t
	if err := syscall.Statfs(dir, &space); err != nil || space.Bavail*uint64(space.Bsize) < enough {
		return ""
	}
	return dir
}
