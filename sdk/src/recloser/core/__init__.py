"""The decision core: pure rules that the SDK and the control plane share. No clock, no I/O, no randomness."""
