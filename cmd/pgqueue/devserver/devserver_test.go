//go:build unix

package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// helperEnv makes the test binary play a program that uses the package.
const helperEnv = "PGQUEUE_DEVSERVER_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "temporary":
		helper(func() error {
			s, err := StartTemporary(context.Background(), Options{})
			if err != nil {
				return err
			}
			fmt.Println(s.PID(), s.dir)
			select {}
		})
	case "open":
		helper(func() error { return openQueryClose(os.Getenv("DIR")) })
	case "open and wait":
		helper(func() error {
			h, err := Open(context.Background(), Options{Dir: os.Getenv("DIR")})
			if err != nil {
				return err
			}
			fmt.Println(h.PID(), h.DataDir)
			select {}
		})
	}
	goleak.VerifyTestMain(m)
}

func TestTemporary(t *testing.T) {
	ctx := t.Context()
	s, err := StartTemporary(ctx, Options{TCP: true, Settings: map[string]string{"application_name": `it's a \ test`}})
	if err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	checkQuery(t, s.URL)
	checkQuery(t, s.TCPURL)
	out, err := exec.Command("psql", "-XAt", "-d", s.URL, "-c", "show listen_addresses").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "127.0.0.1" {
		t.Errorf("psql: %s, %v", out, err)
	}
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"fsync": "off", "application_name": `it's a \ test`, "lc_collate": "C"} {
		var got string
		if err := conn.QueryRow(ctx, "select current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, private := range []string{s.socketDir(), s.dataDir()} {
		if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", private, info.Mode(), err)
		}
	}
	for range 2 {
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	waitGone(t, pid)
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := s.Start(ctx); err == nil {
		t.Error("a stopped server started")
	}
	if s.PID() != 0 {
		t.Error("a stopped server has a process")
	}
}

func TestRestart(t *testing.T) {
	ctx := t.Context()
	s, err := StartTemporary(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if s.TCPURL != "" {
		t.Error("TCP without having asked for it")
	}
	url, pid := s.URL, s.PID()
	for _, mode := range []StopMode{Fast, Immediate} {
		if err := s.Restart(ctx, mode); err != nil {
			t.Fatal(mode, err)
		}
		waitGone(t, pid)
		if s.PID() == pid {
			t.Errorf("%s: the same process %d", mode, pid)
		}
		pid = s.PID()
		checkQuery(t, url)
	}
	log, err := os.ReadFile(s.LogFile())
	if err != nil || !strings.Contains(string(log), "immediate shutdown") || !strings.Contains(string(log), "fast shutdown") {
		t.Errorf("log: %v\n%s", err, log)
	}
	if err := s.Halt(ctx, Immediate); err != nil {
		t.Fatal(err)
	}
	if _, err := query(ctx, url); err == nil {
		t.Error("a halted server answers")
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	checkQuery(t, url)
}

func TestStartFailures(t *testing.T) {
	dir := sharedDir(t)
	_, err := StartTemporary(t.Context(), Options{Dir: dir, Settings: map[string]string{"max_connections": "many"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Errorf("the error does not show the log: %v", err)
	}
	if _, err := StartTemporary(t.Context(), Options{Dir: dir, Settings: map[string]string{"a = b": "c"}}); err == nil {
		t.Error("a bad setting name passed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartTemporary(ctx, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 60))
	if err := os.Mkdir(long, 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := StartTemporary(t.Context(), Options{Dir: long}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("long folder: %v", err)
	}
	if _, err := StartTemporary(t.Context(), Options{Dir: filepath.Join(dir, "nowhere")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, folderPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestKilledOwnerLeavesNoServer(t *testing.T) {
	dir := sharedDir(t)
	cmd, pid, folder := startHelper(t, "temporary", "TMPDIR="+dir)
	if !alive(pid) {
		t.Fatal("the helper has no server")
	}
	killHelper(t, cmd)
	waitGone(t, pid)
	// The folder is left, and the next start there removes it.
	s, err := StartTemporary(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the killed one is still there: %v", err)
	}
	checkQuery(t, s.URL)
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenSharesOneServer(t *testing.T) {
	dir := sharedDir(t)
	first, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	pid := first.PID()
	if pid == 0 || second.PID() != pid {
		t.Errorf("two servers: %d and %d", pid, second.PID())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	checkQuery(t, second.URL)
	for range 2 {
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
	waitGone(t, pid)

	kept, err := Open(t.Context(), Options{Dir: dir, KeepRunning: true})
	if err != nil {
		t.Fatal(err)
	}
	pid = kept.PID()
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	checkQuery(t, kept.URL)
	last, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if last.PID() != pid {
		t.Error("the running server was not reused")
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	waitGone(t, pid)
}

func TestOpenRecovers(t *testing.T) {
	dir := sharedDir(t)
	// What a killed initdb leaves behind.
	programs, err := FindPrograms()
	if err != nil {
		t.Fatal(err)
	}
	halfMade := filepath.Join(dir, fmt.Sprintf("pg%d", programs.Major), "data.new-1")
	if err := os.MkdirAll(halfMade, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(halfMade), 0o711); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(halfMade, "PG_VERSION"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A killed command leaves its server, and the next one takes it over.
	cmd, pid, data := startHelper(t, "open and wait", "DIR="+dir)
	if _, err := os.Stat(halfMade); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-made folder is still there: %v", err)
	}
	killHelper(t, cmd)
	h, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if h.PID() != pid {
		t.Errorf("process %d instead of the one that runs, %d", h.PID(), pid)
	}
	// A killed server leaves its pid file.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitGone(t, pid)
	if _, err := os.Stat(filepath.Join(data, "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	checkQuery(t, again.URL)
	pid = again.PID()
	if err := errors.Join(h.Close(), again.Close()); err != nil {
		t.Error(err)
	}
	waitGone(t, pid)
}

func TestOpenConcurrently(t *testing.T) {
	// Odd names must survive URL, shell and settings; a path too long for a socket moves the socket only.
	for _, name := range []string{"it's `\"a\"` $HOME b+c", "a, b", strings.Repeat("d", 90)} {
		dir := filepath.Join(sharedDir(t), name)
		var group sync.WaitGroup
		for range 8 {
			cmd := helperCommand(t, "open", "DIR="+dir)
			group.Go(func() {
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("process: %v\n%s", err, out)
				}
			})
			group.Go(func() {
				for range 3 {
					if err := openQueryClose(dir); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		left, err := filepath.Glob(filepath.Join(dir, "pg*", "data", "postmaster.pid"))
		if err != nil || len(left) != 0 {
			t.Errorf("a server is left: %v, %v", left, err)
		}
	}
}
