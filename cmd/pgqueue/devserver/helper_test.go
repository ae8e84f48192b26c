//go:build unix

package devserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func helper(work func() error) {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func helperCommand(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), helperEnv+"="+role), env...)
	return cmd
}

// startHelper starts a helper that prints its server's process id and folder, and waits for that line.
func startHelper(t *testing.T, role string, env ...string) (cmd *exec.Cmd, pid int, dir string) {
	t.Helper()
	cmd = helperCommand(t, role, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid, &dir); err != nil {
		t.Fatalf("helper: %v, %v", err, cmd.Wait())
	}
	return cmd, pid, dir
}

func killHelper(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the helper ended by itself")
	}
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// alive counts a process that ended and that nobody has waited for as gone.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return !strings.Contains(string(stat), ") Z ")
}

func query(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	var text string
	err = conn.QueryRow(ctx, "select current_user || ' ' || current_setting('server_encoding')").Scan(&text)
	return text, errors.Join(err, conn.Close(ctx))
}

func checkQuery(t *testing.T, url string) {
	t.Helper()
	text, err := query(t.Context(), url)
	if err != nil || text != "postgres UTF8" {
		t.Fatalf("query on %s: %q, %v", url, text, err)
	}
}

func openQueryClose(dir string) error {
	h, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		return err
	}
	_, err = query(context.Background(), h.URL)
	return errors.Join(err, h.Close())
}

// sharedDir is a folder that the server's account may enter, which t.TempDir is not when we are root.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
