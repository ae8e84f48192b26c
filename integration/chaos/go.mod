module github.com/pgqueue/pgqueue/integration/chaos

go 1.26.0

replace github.com/pgqueue/pgqueue => ../../
