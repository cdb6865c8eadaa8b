"""The demo: recorded agent runs meet a recorded outage, over real HTTP. See docs/demo.md."""
