package main

import (
	"context"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// cutter is a producer whose connection is lost at its COMMIT, each time on the side of it that was chosen, so that what its retry
// must be answered is known: REUSED with the task of the lost answer, or CREATED when the COMMIT never came through.
type cutter struct {
	producer

	proxy         *toxiproxy.Proxy
	before, after int
}

const commitTimeout = 300 * time.Millisecond

func (k *cutter) cutCommits(ctx context.Context, ph *phase) error {
	for ph.goesOn(ctx) {
		r := k.source.fresh(k.random)
		r.work.Window = "commit-" + k.name + "-" + uuid.NewString()
		if k.random.IntN(2) == 0 {
			r.work.Active = r.work.Window
		}
		side := [...]string{upstream, downstream}[k.random.IntN(2)]
		first, sent, lost, err := k.loseCommit(ctx, r, side)
		if err != nil {
			return err
		}
		if sent {
			k.ledger.noAnswer([]*request{r}, true)
		}
		answers, err := k.deliver(ctx, []*request{r})
		if err != nil {
			return err
		}
		if lost && len(answers) == 1 {
			k.judge(r, side, first, answers[0])
		}
		sleep(ctx, time.Duration(k.random.IntN(100))*time.Millisecond)
	}
	return nil
}

// loseCommit enqueues in a transaction and loses the COMMIT on its way to the server, or the answer to it. sent is false when the
// connection was lost before that, and lost when the answer came in spite of all.
func (k *cutter) loseCommit(ctx context.Context, r *request, side string) (first uuid.UUID, sent, lost bool, err error) {
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	call, err := r.make()
	if err != nil {
		return first, false, false, err
	}
	tx, err := k.pool.Begin(calling)
	if err != nil {
		return first, false, false, nil
	}
	defer rollback(ctx, tx)
	receipt, err := k.client.EnqueueTx(calling, tx, call)
	if err != nil {
		return first, false, false, nil
	}
	remove, err := blackhole(k.proxy, side)
	if err != nil {
		return first, false, false, err
	}
	committing, stop := context.WithTimeout(ctx, commitTimeout)
	defer stop()
	failed := tx.Commit(committing)
	return receipt.TaskID, true, failed != nil, remove()
}

func (k *cutter) judge(r *request, side string, first uuid.UUID, o pgqueue.Outcome) {
	k.ledger.mu.Lock()
	defer k.ledger.mu.Unlock()
	switch {
	case o.Err != nil:
		k.ledger.problem("the retry of %s was refused: %v", r.work.Window, o.Err)
	case side == downstream && (o.Created() || o.TaskID != first):
		k.ledger.problem("the answer to the COMMIT of task %s was lost, and the retry got %s %s", first, o.Disposition, o.TaskID)
	case side == upstream && (!o.Created() || o.TaskID == first):
		k.ledger.problem("the COMMIT of task %s was lost, and the retry got %s %s", first, o.Disposition, o.TaskID)
	}
	if side == downstream {
		k.after++
	} else {
		k.before++
	}
}
