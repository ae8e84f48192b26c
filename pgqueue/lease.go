package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// session is one lease of the worker. Usually there is one. When an answer to a claim or to an outcome was lost, the database may
// count tasks to the lease that the worker does not run; the session then retires: no more claims under it, what is known goes on,
// and the rest is handed back.
type session struct {
	lease   uuid.UUID
	renewed time.Time // by this process's monotonic clock; only differences of it are used
	open    map[execution]struct{}
}

func (w *Worker) openSession(ctx context.Context) error {
	asked := time.Now()
	lease, err := call(ctx, w.client, func(db gen.DB) (uuid.UUID, error) {
		return gen.OpenLease(ctx, db, gen.OpenLeaseParams{Worker: w.config.Name, Length: &w.config.Lease, Namespace: &w.client.namespace})
	})
	if err != nil {
		return fmt.Errorf("open lease: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = &session{lease: lease, renewed: asked, open: make(map[execution]struct{})}
	w.sessions = append(w.sessions, w.current)
	return nil
}

// closeSessions hands back whatever is unfinished.
func (w *Worker) closeSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	var errs []error
	for _, s := range w.allSessions() {
		errs = append(errs, w.closeLease(ctx, s, nil))
	}
	return errors.Join(errs...)
}

func (w *Worker) closeLease(ctx context.Context, s *session, keep []uuid.UUID) error {
	handedBack, err := call(ctx, w.client, func(db gen.DB) (int64, error) {
		return gen.CloseLease(ctx, db, gen.CloseLeaseParams{LeaseID: s.lease, Keep: keep, Namespace: &w.client.namespace})
	})
	if err != nil {
		return fmt.Errorf("close lease: %w", err)
	}
	if handedBack > 0 {
		w.log.Info("handed unfinished tasks back", "tasks", handedBack)
	}
	return nil
}

// keepLeases renews until ctx ends: one statement for a lease, however many tasks run. A lease that is missing is opened at once.
func (w *Worker) keepLeases(ctx context.Context) {
	for pause := w.config.Lease / 3; w.waitForLeases(ctx, pause); {
		healthy := true
		for _, s := range w.allSessions() {
			healthy = w.keepLease(ctx, s) && healthy
		}
		if w.currentSession() == nil {
			healthy = w.reopenSession(ctx) && healthy
		}
		pause = w.config.Lease / 3
		if !healthy {
			pause = min(w.config.Lease/10, time.Second)
		}
	}
}

// waitForLeases waits for the next renewal, or until the worker has no lease to claim under. It tells whether ctx still lives.
func (w *Worker) waitForLeases(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.missing:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// reopenSession is bounded as a renewal is: it may have met a connection that is dead and does not say so, and the leases under which
// tasks run must be renewed meanwhile.
func (w *Worker) reopenSession(ctx context.Context) bool {
	opening, cancel := context.WithTimeout(ctx, w.config.Lease/3)
	defer cancel()
	err := w.openSession(opening)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("lease", "error", err)
	}
	return err == nil
}

// keepLease renews one lease, and closes it when it has retired and nothing runs under it. A lease that is lost, by the database's
// word or because no renewal has come through for its whole length, ends the contexts of its tasks.
func (w *Worker) keepLease(ctx context.Context, s *session) (healthy bool) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease/3)
	defer cancel()
	asked := time.Now()
	renewal, err := call(ctx, w.client, func(db gen.DB) (gen.LeaseRenewal, error) {
		return gen.RenewLease(ctx, db, gen.RenewLeaseParams{LeaseID: s.lease, Namespace: &w.client.namespace})
	})
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return true // the worker ends
	case err != nil && time.Since(s.renewed) < w.config.Lease:
		w.log.Warn("renew lease", "error", err)
		return false
	case err != nil || !renewal.Renewed:
		w.log.Error("lease lost", "lease", s.lease, "error", err)
		w.loseSession(s)
		return false
	}
	s.renewed = asked
	for _, id := range renewal.Cancelled {
		w.cancelTask(id, ErrCancelled)
	}
	if s == w.currentSession() {
		return true
	}
	keep := w.openTasks(s)
	if err := w.closeLease(ctx, s, keep); err != nil {
		w.log.Warn("retired lease", "error", err)
		return false
	}
	if len(keep) == 0 {
		w.removeSession(s)
	}
	return true
}

// retire ends claims under a session about which the database may know more than the worker does.
func (w *Worker) retire(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endClaims(s)
}

// endClaims wants the lock held.
func (w *Worker) endClaims(s *session) {
	if w.current != s {
		return
	}
	w.current = nil
	select {
	case w.missing <- struct{}{}:
	default:
	}
}

func (w *Worker) loseSession(s *session) {
	w.removeSession(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := range s.open {
		if cancel := w.running[e]; cancel != nil {
			cancel(ErrLeaseLost)
		}
	}
}

func (w *Worker) removeSession(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endClaims(s)
	for i, other := range w.sessions {
		if other == s {
			w.sessions = append(w.sessions[:i:i], w.sessions[i+1:]...)
			return
		}
	}
}

func (w *Worker) currentSession() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func (w *Worker) allSessions() []*session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions[:len(w.sessions):len(w.sessions)]
}

func (w *Worker) openTasks(s *session) []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(s.open))
	for e := range s.open {
		ids = append(ids, e.id)
	}
	return ids
}

// settle forgets an execution whose outcome is written, or never will be.
func (w *Worker) settle(s *session, e execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(s.open, e)
}

// sleep waits and tells whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// jitter spreads what many workers do at one interval.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1))
}
