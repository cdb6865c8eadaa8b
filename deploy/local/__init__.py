"""Run Recloser on one machine: embedded servers, secrets and a supervisor; standard library only."""
