package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// WorkerConfig says how a worker works.
type WorkerConfig struct {
	// Queues in the order in which they are served: the first that has due tasks goes first. Defaults to "default".
	Queues []string
	// Concurrency is how many tasks run at once, at most 10,000. Defaults to 10.
	Concurrency int
	// Name for people, in the lease and in the records of failed attempts. Defaults to host name and process id.
	Name string
	// Lease is how long the worker may be silent before its tasks are given to others. It is renewed at a third of it. Defaults to
	// 30 s.
	Lease time.Duration
	// PollInterval is how often an idle worker looks for tasks that no notification told it of. Defaults to 2 s.
	PollInterval time.Duration
	// ReapInterval is how often the worker looks for tasks of others whose lease has expired. Defaults to 5 s.
	ReapInterval time.Duration
	// DrainTimeout is how long Run waits for running tasks after its context has ended; then their contexts are cancelled with
	// ErrShutdown, and what does not end in 5 s more goes back to the queue as it is. Defaults to 30 s.
	DrainTimeout time.Duration
	// ListenConfig is a direct connection for LISTEN, where the pool goes through a transaction pooler. Defaults to the pool's own.
	ListenConfig *pgx.ConnConfig
	// NoListen makes the worker live from polling alone.
	NoListen bool
	// ExitWhenEmpty makes Run return when it finds no due task and runs none.
	ExitWhenEmpty bool
	// Logger defaults to the client's.
	Logger *slog.Logger
}

const (
	maxConcurrency = 10000
	abandonTimeout = 5 * time.Second
	// reapTimeout is for connections that are dead and do not say so; a sweep is rolled back at its end.
	reapTimeout = time.Minute
)

// Worker runs tasks. Make it with NewWorker, give it handlers with Handle, and start it with Run.
type Worker struct {
	client   *Client
	config   WorkerConfig
	log      *slog.Logger
	handlers map[string]handler
	other    handler

	abandon     chan struct{}
	abandonOnce sync.Once
	missing     chan struct{} // signals that there is no current session

	outcomes *outcomes
	slots    chan struct{}

	mu       sync.Mutex
	current  *session // claims go under it; nil while there is none
	sessions []*session
	running  map[execution]context.CancelCauseFunc
}

// execution names one run of a task: the task may be given out again while an old run still ends.
type execution struct {
	id     TaskID
	number int
}

// NewWorker makes a worker. Its configuration is checked by Run.
func NewWorker(client *Client, config WorkerConfig) *Worker {
	if len(config.Queues) == 0 {
		config.Queues = []string{"default"}
	}
	if config.Concurrency == 0 {
		config.Concurrency = 10
	}
	if config.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		config.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	config.Lease = positive(config.Lease, 30*time.Second)
	config.PollInterval = positive(config.PollInterval, 2*time.Second)
	config.ReapInterval = positive(config.ReapInterval, 5*time.Second)
	config.DrainTimeout = positive(config.DrainTimeout, 30*time.Second)
	if config.Logger == nil {
		config.Logger = client.log
	}
	return &Worker{
		client: client, config: config, log: config.Logger.With("worker", config.Name),
		handlers: make(map[string]handler), abandon: make(chan struct{}), missing: make(chan struct{}, 1),
		running: make(map[execution]context.CancelCauseFunc),
	}
}

func positive(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func (w *Worker) handle(name string, h handler) {
	if _, ok := w.handlers[name]; ok {
		panic(fmt.Sprintf("pgqueue: Handle: task type %q has a handler already", name))
	}
	w.handlers[name] = h
}

func (w *Worker) check() error {
	switch {
	case len(w.handlers) == 0 && w.other == nil:
		return errors.New("pgqueue: the worker has no handler")
	case w.config.Concurrency < 1 || w.config.Concurrency > maxConcurrency:
		return fmt.Errorf("pgqueue: Concurrency is %d, it must be from 1 to %d", w.config.Concurrency, maxConcurrency)
	case w.config.PollInterval < 0 || w.config.ReapInterval < 0 || w.config.DrainTimeout < 0:
		return errors.New("pgqueue: PollInterval, ReapInterval and DrainTimeout must not be negative")
	}
	return nil
}

// Abandon makes a draining Run wait no longer: contexts of running tasks are cancelled with ErrShutdown at once.
func (w *Worker) Abandon() { w.abandonOnce.Do(func() { close(w.abandon) }) }

// Run works until ctx ends, and then drains: it claims no more tasks, waits for those that run, writes their outcomes, hands the
// rest back, and closes its lease. It returns nil after a drain, and an error when it could not begin. It runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	if w.slots != nil {
		return errors.New("pgqueue: Run was called before on this worker")
	}
	w.slots = make(chan struct{}, w.config.Concurrency)
	w.outcomes = newOutcomes(w)
	if err := w.openSession(ctx); err != nil {
		return err
	}

	// What must go on while the worker drains lives under its own context.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var helpers sync.WaitGroup
	wake := newWake(w.config.Queues)
	helpers.Go(func() { w.keepLeases(background) })
	helpers.Go(func() { w.outcomes.write(background) })
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	helpers.Go(func() { w.reap(fetching) })
	if !w.config.NoListen {
		helpers.Go(func() { w.listen(fetching, wake) })
	}

	w.fetch(fetching, wake)
	stopFetching()
	w.drain()
	w.outcomes.close()
	<-w.outcomes.ended
	stop()
	helpers.Wait()
	return w.closeSessions(ctx)
}

// drain waits for what runs, cancels it when the time is up, and leaves behind what does not end even then.
func (w *Worker) drain() {
	w.log.Debug("draining", "running", len(w.slots))
	if w.waitIdle(w.config.DrainTimeout, w.abandon) {
		return
	}
	w.cancelAll(ErrShutdown)
	if !w.waitIdle(abandonTimeout, nil) {
		w.log.Warn("tasks did not end in time and go back to the queue", "running", len(w.slots))
	}
}

// waitIdle waits until all slots are free. A false answer leaves the slots as they are.
func (w *Worker) waitIdle(timeout time.Duration, giveUp <-chan struct{}) bool {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for taken := range cap(w.slots) {
		select {
		case w.slots <- struct{}{}:
		case <-deadline.C:
			w.freeSlots(taken)
			return false
		case <-giveUp:
			w.freeSlots(taken)
			return false
		}
	}
	return true
}

func (w *Worker) freeSlots(n int) {
	for range n {
		<-w.slots
	}
}

// reap takes back tasks of dead workers, this one's own former leases among them.
func (w *Worker) reap(ctx context.Context) {
	for sleep(ctx, jitter(w.config.ReapInterval)) {
		reaping, cancel := context.WithTimeout(ctx, reapTimeout)
		reaped, err := w.client.Reap(reaping)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			w.log.Warn("reap", "error", err)
		case reaped.Requeued+reaped.Lost+reaped.Discarded > 0:
			w.log.Info("took back tasks of lost workers", "requeued", reaped.Requeued, "lost", reaped.Lost, "discarded", reaped.Discarded)
		}
	}
}

func (w *Worker) cancelAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.running {
		cancel(cause)
	}
}

func (w *Worker) cancelTask(id TaskID, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, cancel := range w.running {
		if e.id == id {
			cancel(cause)
		}
	}
}
