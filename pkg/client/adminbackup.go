package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// BackupRequest says where a backup is made.
type BackupRequest struct {
	// Dir is the absolute path of a folder on the server, below its backup.dir. It is created, or must be empty.
	Dir string `json:"dir"`
}

// Backup tells about a backup that was made.
type Backup struct {
	// LongestPause is how long the slowest write of the store took meanwhile, such as 12.5ms.
	LongestPause string `json:"longest_pause"`
}

// Backup makes a backup of a server on the embedded store, in a folder on the server, while it runs. It returns when the backup is
// complete. The server must be "fanmail serve".
func (c *Client) Backup(ctx context.Context, dir string) (Backup, error) {
	var made Backup
	body, err := json.Marshal(BackupRequest{Dir: dir})
	if err != nil {
		return made, fmt.Errorf("encode the request: %w", err)
	}
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/admin/backup", content: ContentJSON, body: body, read: jsonInto(&made)})
	return made, err
}
