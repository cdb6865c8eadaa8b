"""One file per noun: what it looks like, how it is filtered, its views."""
