package client

// ServerOf is serverOf, for its test.
func (c *Client) ServerOf(path string) string { return c.serverOf(path) }
