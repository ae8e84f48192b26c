// Package functions carries the PL/pgSQL functions of the queue, one file each; install.sql lists them in order.
package functions

import "embed"

// Files holds install.sql and the files that it includes.
//
//go:embed *.sql */*.sql
var Files embed.FS
