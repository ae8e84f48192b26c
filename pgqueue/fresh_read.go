package pgqueue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

const (
	freshReadTimeout = 2 * time.Second
	freshReadLimits  = "set local lock_timeout = '100ms'; set local statement_timeout = '2s'" //sql:connection
)

// freshRead answers for a transaction at REPEATABLE READ or SERIALIZABLE whose snapshot shows a pending holder that has changed
// since: it looks once more, on another connection at READ COMMITTED. The holder is returned when it is pending still. Anything
// else, a pool without a free connection and a table lock in the way too, returns nil in bounded time, and the race stands.
func (c *Client) freshRead(ctx context.Context, taskName string, raced gen.Receipt) *gen.Receipt {
	d := detailOf(string(raced.ErrorDetail))
	if d.FreshReadKey == nil || d.HolderID == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freshReadTimeout)
	defer cancel()
	var found []gen.Receipt
	err := pgx.BeginTxFunc(ctx, c.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, freshReadLimits); err != nil {
			return err
		}
		found, err = gen.PendingHolder(ctx, tx, gen.PendingHolderParams{TaskName: taskName, ActiveKey: *d.FreshReadKey, Namespace: &c.namespace})
		return err
	})
	if err != nil {
		c.log.Debug("fresh read", "task", taskName, "error", err)
		return nil
	}
	if len(found) == 1 && found[0].TaskID != nil && *found[0].TaskID == *d.HolderID {
		return &found[0]
	}
	return nil
}
