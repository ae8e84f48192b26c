package pgqueue

import (
	"context"

	"github.com/pgqueue/pgqueue/gen"
)

// PruneOptions say what Prune deletes; nil takes the defaults of pgqueue.prune, and of MaxTasks 1,000.
type PruneOptions = gen.PruneParams

// Prune deletes settled tasks past their retention in batches, each a transaction, until none is left; see pgqueue.prune.
func (c *Client) Prune(ctx context.Context, options PruneOptions) (total Pruned, err error) {
	for more := true; more; {
		var part Pruned
		if part, more, err = c.PruneBatch(ctx, options); err != nil {
			return total, err
		}
		total.Tasks += part.Tasks
		total.Windows += part.Windows
		total.Locks += part.Locks
		total.LastID, options.After = part.LastID, part.LastID
	}
	return total, nil
}

// PruneBatch is one step of Prune. more tells that another step may find more.
func (c *Client) PruneBatch(ctx context.Context, options PruneOptions) (part Pruned, more bool, err error) {
	batch := 1000
	if options.MaxTasks != nil {
		batch = *options.MaxTasks
	}
	options.MaxTasks, options.Namespace = &batch, &c.namespace
	part, err = call(ctx, c, func(db gen.DB) (Pruned, error) { return gen.Prune(ctx, db, options) })
	more = err == nil && (part.Tasks >= int64(batch) || part.Windows >= int64(batch))
	return part, more, err
}
