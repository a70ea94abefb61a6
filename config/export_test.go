package config

// Reference returns the embedded fanmail.yaml.
func Reference() []byte { return reference }
