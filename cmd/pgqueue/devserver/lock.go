//go:build unix

package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// A lock file belongs to an open file, not to a process: two handles of one process exclude each other like two
// processes do, and the kernel frees it however the process ends. Programs that we start do not inherit it.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

// tryLock reports whether it got the lock, without waiting.
func tryLock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// waitLock polls, because a blocking flock cannot be cancelled.
func waitLock(ctx context.Context, file *os.File, how int) error {
	for {
		got, err := tryLock(file, how)
		if got || err != nil {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
