"""The operators' dashboard: server-rendered, htmx, no build."""
