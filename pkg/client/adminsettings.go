package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// Setting is a setting whose value must be the same in all processes on a store.
type Setting struct {
	Key string `json:"key"`
	// Recorded is the value in force.
	Recorded string `json:"recorded"`
	// Configured is the value in the configuration of the server that answers.
	Configured string `json:"configured"`
	// Since is the time at which Recorded was recorded.
	Since Time `json:"since"`
}

// SettingList is a list of settings.
type SettingList struct {
	Settings []Setting `json:"settings"`
}

// SettingChange is a change of a setting.
type SettingChange struct {
	// Value has the syntax of the configuration, such as 720h, 30d or 81KiB.
	Value string `json:"value"`
	// DryRun makes the server compute the effect of the change without making it.
	DryRun bool `json:"dry_run,omitempty"`
	// Confirm allows a change by which messages expire.
	Confirm bool `json:"confirm,omitempty"`
}

// SettingEffect is the effect of a change of a setting.
type SettingEffect struct {
	// Changed is false if the value equals the recorded one.
	Changed bool `json:"changed"`
}

// Process is a process on a store.
type Process struct {
	Name string `json:"name"`
	// Role is the roles of the process, joined by "+".
	Role string `json:"role"`
	// Host is the name of its host, Version its release, and Address where it serves HTTP. They are empty for a process of an old release, and so are
	// State and Started.
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	// State is "running" or "stopping". A process that was killed stays as it was.
	State string `json:"state,omitempty"`
	// Started is when the process started, by its own clock.
	Started Time `json:"started,omitzero"`
	// Seen is the time of the last report of the process.
	Seen Time `json:"seen"`
}

// ProcessList is a list of processes.
type ProcessList struct {
	Processes []Process `json:"processes"`
}

// Settings returns the recorded and the configured settings.
func (c *Client) Settings(ctx context.Context) ([]Setting, error) {
	var list SettingList
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/admin/settings", idempotent: true, read: jsonInto(&list)})
	return list.Settings, err
}

// ChangeSetting changes a recorded setting and returns the effect. It is idempotent.
func (c *Client) ChangeSetting(ctx context.Context, key string, change SettingChange) (SettingEffect, error) {
	var effect SettingEffect
	body, err := json.Marshal(change)
	if err != nil {
		return effect, fmt.Errorf("encode the change: %w", err)
	}
	err = c.do(ctx, call{
		method: http.MethodPut, path: "/v1/admin/settings/" + url.PathEscape(key), content: ContentJSON, body: body,
		idempotent: true, read: jsonInto(&effect),
	})
	return effect, err
}

// Processes returns the processes that have reported themselves within a day.
func (c *Client) Processes(ctx context.Context) ([]Process, error) {
	var list ProcessList
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/admin/processes", idempotent: true, read: jsonInto(&list)})
	return list.Processes, err
}
