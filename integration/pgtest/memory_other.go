//go:build !linux

package pgtest

// memoryDir is "", the system's temporary folder: there is no file system in memory that is always there.
func memoryDir() string { return "" }
