package pgqueue

import (
	"context"

	"github.com/pgqueue/pgqueue/gen"
)

// PruneBatch is one step of Prune, of at most options.MaxTasks tasks (1,000 when nil). more tells that another step may find more.
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
