// Package pgqueue is the Go client of a task queue that lives inside PostgreSQL. The database decides at enqueue time whether
// a task already exists, so the promise holds for every language, process and isolation level.
//
// A task type is declared once, with the function that makes its key:
//
//	type SendInvoice struct {
//		OrderID int64 `json:"order_id"`
//	}
//
//	var sendInvoice = pgqueue.Define("send_invoice", pgqueue.TaskOptions[SendInvoice]{
//		Queue:             "billing",
//		UniqueWhileActive: func(a SendInvoice) string { return fmt.Sprintf("order:%d", a.OrderID) },
//	})
//
// A producer enqueues, alone or in its own transaction, and gets a receipt: CREATED, or REUSED with the task that exists:
//
//	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{})
//	receipt, err := sendInvoice.Enqueue(ctx, client, SendInvoice{OrderID: 42})
//
// A worker runs tasks until its context ends, and then drains:
//
//	w := pgqueue.NewWorker(client, pgqueue.WorkerConfig{Queues: []string{"billing"}, Concurrency: 50})
//	pgqueue.Handle(w, sendInvoice, func(ctx context.Context, t *pgqueue.Task[SendInvoice]) error {
//		return send(ctx, t.Args.OrderID)
//	})
//	err = w.Run(ctx)
//
// A unique key deduplicates tasks that wait or run. It does not promise that two executions of one key never overlap: a task
// whose worker fell silent is given to another worker although the first may still be at it. Handlers must bear that.
//
// The schema is installed by package github.com/pgqueue/pgqueue/sql, or by the command pgqueue migrate.
package pgqueue
