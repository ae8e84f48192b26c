//go:build unix

package devserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	devPort      = 5432 // only part of the socket's name
	startTimeout = 60 * time.Second
)

// Handle is one user of the development server. All handles of all processes share the server.
type Handle struct {
	// URL connects by the private socket, as superuser, for pgx and psql alike.
	URL string
	// DataDir holds the data; it outlives the handle.
	DataDir string
	// LogFile is the server's log.
	LogFile string

	server      development
	users       *os.File
	keepRunning bool
	closeOnce   sync.Once
	closeErr    error
}

// development is the server of one folder:
//
//	decide   exclusive lock: held while somebody starts or stops the server, or makes its data
//	users    shared lock: held by every handle; who can make it exclusive is the last one
//	data     the data folder, complete or not there; data.new-* while initdb works
//	s, log   the private folders of the socket and of the server's log
type development struct {
	programs Programs
	who      account
	dir      string
	socket   string
}

func (d development) data() string    { return filepath.Join(d.dir, "data") }
func (d development) logDir() string  { return filepath.Join(d.dir, "log") }
func (d development) logFile() string { return filepath.Join(d.data(), logFromData) }

// logFromData is relative: pg_ctl, which runs in the data folder, puts the paths that it is given between double
// quotes of a shell, and that is not enough for every name of a folder.
const logFromData = "../log/postgres.log"

// Open joins the development server, which it makes at the first use and starts when it is down. Close the handle
// to leave; the last one to leave stops the server.
func Open(ctx context.Context, options Options) (*Handle, error) {
	programs, err := options.programs()
	if err != nil {
		return nil, err
	}
	d, err := prepare(programs, options.Dir)
	if err != nil {
		return nil, fmt.Errorf("development server: %w", err)
	}
	h := &Handle{
		URL: socketURL(d.socket, devPort), DataDir: d.data(), LogFile: d.logFile(),
		server: d, keepRunning: options.KeepRunning,
	}
	err = d.deciding(ctx, func() error {
		var err error
		if h.users, err = openLock(filepath.Join(d.dir, "users")); err != nil {
			return err
		}
		if err := waitLock(ctx, h.users, syscall.LOCK_SH); err != nil {
			return err
		}
		if err := d.ensureData(ctx); err != nil {
			return err
		}
		return d.ensureRunning(ctx, options.Settings)
	})
	if err != nil {
		if h.users != nil {
			err = errors.Join(err, h.users.Close())
		}
		return nil, fmt.Errorf("development server: %w", err)
	}
	return h, nil
}

// PID is the process id of the postmaster, 0 when the server is down.
func (h *Handle) PID() int { return readPidFile(h.DataDir).pid }

// Close leaves the server and stops it when nobody else uses it. More calls return the same.
func (h *Handle) Close() error {
	h.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		h.closeErr = errors.Join(h.leave(ctx), h.users.Close())
	})
	return h.closeErr
}

func (h *Handle) leave(ctx context.Context) error {
	if h.keepRunning {
		return nil
	}
	return h.server.deciding(ctx, func() error {
		last, err := tryLock(h.users, syscall.LOCK_EX)
		if err != nil || !last {
			return err
		}
		return h.server.stop(ctx)
	})
}

// prepare makes the folders. As root the data stays out of root's home, where the server's account may not go.
func prepare(programs Programs, root string) (development, error) {
	d := development{programs: programs}
	if root == "" {
		root = os.Getenv(DirEnv)
	}
	if root == "" && os.Geteuid() == 0 {
		root = "/var/cache/pgqueue"
	}
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return d, fmt.Errorf("%w (set %s)", err, DirEnv)
		}
		root = filepath.Join(cache, "pgqueue")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return d, err
	}
	d.dir = filepath.Join(root, fmt.Sprintf("pg%d", programs.Major))
	if d.who, err = accountOf(d.data()); err != nil {
		return d, err
	}
	for _, dir := range []string{root, d.dir} {
		if err := makePassage(dir, d.who); err != nil {
			return d, err
		}
	}
	for _, dir := range []string{programs.Dir, d.dir} {
		if err := d.who.canEnter(dir); err != nil {
			return d, err
		}
	}
	d.socket = filepath.Join(d.dir, "s")
	if socketProblem(d.socket, devPort) != "" {
		sum := sha256.Sum256([]byte(d.dir))
		d.socket = fmt.Sprintf("/tmp/pgqueue-dev-%d-%x", d.who.uid, sum[:4])
	}
	return d, nil
}

// makePassage makes a folder of ours that the account passes through; data, socket and log in it are closed to others.
// It gets its name when its mode is right, because others may be making it too.
func makePassage(dir string, who account) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, mode := filepath.Dir(dir), fs.FileMode(0o700)
	if who.other {
		mode = 0o711
	}
	if err := os.MkdirAll(parent, mode); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(parent, filepath.Base(dir)+".new-")
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, mode); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	err = os.Rename(fresh, dir)
	if errors.Is(err, fs.ErrExist) { // somebody was faster and has begun to use it
		return os.Remove(fresh)
	}
	return err
}

// deciding runs one starter or stopper at a time.
func (d development) deciding(ctx context.Context, work func() error) (err error) {
	lock, err := openLock(filepath.Join(d.dir, "decide"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := waitLock(ctx, lock, syscall.LOCK_EX); err != nil {
		return err
	}
	return work()
}

// ensureData runs initdb beside the final folder and renames, so that a folder named data is always complete.
func (d development) ensureData(ctx context.Context) error {
	if _, err := os.Lstat(d.data()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	halfMade, err := filepath.Glob(filepath.Join(d.dir, "data.new-*"))
	if err != nil {
		return err
	}
	for _, dir := range halfMade {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	fresh, err := os.MkdirTemp(d.dir, "data.new-")
	if err != nil {
		return err
	}
	if d.who.other {
		if err := os.Lchown(fresh, d.who.uid, d.who.gid); err != nil {
			return err
		}
	}
	if err := initdb(ctx, d.programs, d.who, fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return os.Rename(fresh, d.data())
}

// ensureRunning reuses a server that answers, waits for one that is on its way up or down, and starts one otherwise.
func (d development) ensureRunning(ctx context.Context, settings map[string]string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it neither answers nor ends"))
	defer cancel()
	for _, dir := range []string{d.socket, d.logDir()} {
		if err := d.who.mkdir(dir); err != nil {
			return err
		}
	}
	deaf := time.Now()
	for {
		connection, err := net.DialTimeout("unix", socketPath(d.socket, devPort), time.Second)
		if err == nil {
			deaf = time.Now()
			if err := connection.Close(); err != nil {
				return err
			}
			if readPidFile(d.data()).ready {
				return nil
			}
		}
		alive, err := d.alive(ctx)
		if err != nil {
			return err
		}
		// A process id that another process has by now looks alive and never opens the socket. The server
		// itself can tell better than pg_ctl status, so let it try.
		if !alive || time.Since(deaf) > 10*time.Second {
			return d.start(ctx, settings)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the running server: %w\n%s", err, logTail(d.logFile()))
		}
	}
}

func (d development) start(ctx context.Context, settings map[string]string) error {
	all := map[string]string{}
	for name, value := range settings {
		all[name] = value
	}
	all["listen_addresses"] = ""
	all["unix_socket_directories"] = quoteListItem(d.socket)
	all["port"] = fmt.Sprint(devPort)
	var words []string
	for _, name := range sortedNames(all) {
		if err := checkSetting(name, all[name]); err != nil {
			return err
		}
		words = append(words, "-c "+quoteWord(name+"="+all[name]))
	}
	out, err := d.pgctl(ctx, "start", "-w", "-t", fmt.Sprint(int(startTimeout.Seconds())), "-l", logFromData,
		"-o", strings.Join(words, " "))
	if err != nil {
		return fmt.Errorf("start server: %w\n%s\n%s", err, out, logTail(d.logFile()))
	}
	return nil
}

func (d development) stop(ctx context.Context) error {
	alive, err := d.alive(ctx)
	if err != nil || !alive {
		return err
	}
	out, err := d.pgctl(ctx, "stop", "-w", "-m", "fast")
	if err != nil {
		return fmt.Errorf("stop server: %w\n%s", err, out)
	}
	return os.Remove(d.socket) // empty now, and not always in our folder
}

func (d development) alive(ctx context.Context) (bool, error) {
	out, err := d.pgctl(ctx, "status")
	const notRunning = 3
	var failed interface{ ExitCode() int }
	if errors.As(err, &failed) && failed.ExitCode() == notRunning {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pg_ctl status: %w\n%s", err, out)
	}
	return true, nil
}

func (d development) pgctl(ctx context.Context, action string, args ...string) (string, error) {
	args = append([]string{action, "-D", "."}, args...)
	cmd := command(ctx, d.who, d.data(), d.programs.Path("pg_ctl"), args...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// quoteWord quotes for the shell through which pg_ctl starts the server.
func quoteWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
