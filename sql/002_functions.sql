{{ .functions }}
