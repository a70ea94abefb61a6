package config_test

import (
	"fmt"

	"github.com/fanmail/fanmail/config"
)

func ExampleLoad() {
	c, err := config.Load(config.Options{Env: []string{"FANMAIL_LIMITS_BODY=16KiB"}})
	fmt.Println(c.Limits.Body, c.Limits.Attrs, err)

	_, err = config.Load(config.Options{Env: []string{"FANMAIL_LIMIT_BODY=16KiB"}})
	fmt.Println(err)
	// Output:
	// 16KiB 16KiB <nil>
	// environment: FANMAIL_LIMIT_BODY is unknown; the nearest known variable is FANMAIL_LIMITS_BODY
}
