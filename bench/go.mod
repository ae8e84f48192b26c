module github.com/pgqueue/pgqueue/bench

go 1.26.0

replace github.com/pgqueue/pgqueue => ../
