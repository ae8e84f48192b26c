//go:build unix

package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	folderPrefix = "pgqueue-"
	lockName     = "lock"
	// maxSocketPath is what the smallest sockaddr_un (macOS) takes, less the closing zero; Linux takes 107.
	maxSocketPath = 103
	portTries     = 5
)

// Server is a throwaway PostgreSQL. Its process ends with ours, on Linux even when ours is killed with SIGKILL.
type Server struct {
	// URL connects by the private socket, as superuser, for pgx and psql alike.
	URL string
	// TCPURL connects by TCP; empty without Options.TCP.
	TCPURL string

	programs Programs
	who      account
	dir      string
	port     int
	tcp      bool
	lock     *os.File

	mu      sync.Mutex
	process *process
	stopped bool
}

// StartTemporary makes a new server in a temporary folder and waits until it takes connections. ctx covers the start
// only; Stop ends the server and removes the folder.
func StartTemporary(ctx context.Context, options Options) (*Server, error) {
	programs, err := options.programs()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if err := who.canEnter(programs.Dir); err != nil {
		return nil, err
	}
	base, err := temporaryBase(options.Dir, who)
	if err != nil {
		return nil, err
	}
	if err := sweep(base); err != nil {
		return nil, fmt.Errorf("remove folders of dead servers: %w", err)
	}
	s := &Server{programs: programs, who: who, tcp: options.TCP, port: 5432}
	if err := s.create(ctx, base, options.Settings); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Server) create(ctx context.Context, base string, settings map[string]string) error {
	var err error
	if s.dir, err = os.MkdirTemp(base, folderPrefix); err != nil {
		return err
	}
	if s.lock, err = lockFolder(s.dir); err != nil {
		return err
	}
	if s.who.other { // the account passes through; what is inside is closed to others
		if err := os.Chmod(s.dir, 0o711); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.dataDir(), s.socketDir()} {
		if err := s.who.mkdir(dir); err != nil {
			return err
		}
	}
	if err := initdb(ctx, s.programs, s.who, s.dataDir(), "--no-sync"); err != nil {
		return err
	}
	all := map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "timezone": "UTC", "log_timezone": "UTC",
	}
	for name, value := range settings {
		all[name] = value
	}
	all["unix_socket_directories"] = quoteListItem(s.socketDir())
	all["listen_addresses"] = ""
	if s.tcp {
		all["listen_addresses"] = "127.0.0.1"
	}
	text, err := configText(all)
	if err != nil {
		return err
	}
	// A file of ours in front of the server's own, so that ALTER SYSTEM still has the last word.
	text = "include 'data/postgresql.conf'\n" + text
	if err := os.WriteFile(s.configFile(), []byte(text), 0o644); err != nil {
		return err
	}
	if s.who.other { // whatever the umask is
		if err := os.Chmod(s.configFile(), 0o644); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if s.tcp {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		err = s.Start(ctx)
		// Somebody else may take the port between our look and the server's start.
		if err == nil || !s.tcp || try == portTries || !strings.Contains(err.Error(), "Address already in use") {
			break
		}
		if err := os.Truncate(s.LogFile(), 0); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	s.URL = socketURL(s.socketDir(), s.port)
	if s.tcp {
		s.TCPURL = tcpURL(s.port)
	}
	return nil
}

func (s *Server) dataDir() string    { return filepath.Join(s.dir, "data") }
func (s *Server) socketDir() string  { return filepath.Join(s.dir, "s") }
func (s *Server) configFile() string { return filepath.Join(s.dir, "postgresql.conf") }

// LogFile is where the server writes its log. It goes with the folder.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "log") }

// PID is the process id of the postmaster, 0 while the server is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.running() {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Start starts a server that Halt took down and waits until it takes connections.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(ctx)
}

func (s *Server) start(ctx context.Context) error {
	if s.stopped {
		return errors.New("start server: it was stopped for good")
	}
	if s.process != nil && s.process.running() {
		return nil
	}
	log, err := os.OpenFile(s.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := command(context.Background(), s.who, s.dataDir(), s.programs.Path("postgres"),
		"-D", s.dataDir(), "-c", "config_file="+s.configFile(), "-p", strconv.Itoa(s.port))
	cmd.Stdout, cmd.Stderr = log, log
	dieWithUs(cmd.SysProcAttr, syscall.SIGQUIT)
	s.process, err = startProcess(cmd)
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	for {
		select {
		case <-s.process.done:
			return fmt.Errorf("server ended while starting (%s)\n%s", cmd.ProcessState, logTail(s.LogFile()))
		default:
		}
		if state := readPidFile(s.dataDir()); state.ready && state.pid == s.process.cmd.Process.Pid {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			tail := logTail(s.LogFile())
			return errors.Join(fmt.Errorf("start server: %w\n%s", err, tail), s.process.stop(ctx, Immediate))
		}
	}
}

// Halt takes the server down and keeps its data for Start.
func (s *Server) Halt(ctx context.Context, mode StopMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt(ctx, mode)
}

func (s *Server) halt(ctx context.Context, mode StopMode) error {
	if s.process == nil {
		return nil
	}
	return s.process.stop(ctx, mode)
}

// Restart stops the server in the given mode and starts it on the same address.
func (s *Server) Restart(ctx context.Context, mode StopMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.halt(ctx, mode); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop ends the server and removes its folder. More calls do nothing. A ctx that is done only makes it less polite.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	if err := s.halt(ctx, Fast); err != nil {
		return err
	}
	s.stopped = true
	var failed error
	if s.dir != "" {
		failed = os.RemoveAll(s.dir)
	}
	if s.lock != nil {
		failed = errors.Join(failed, s.lock.Close())
	}
	return failed
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
