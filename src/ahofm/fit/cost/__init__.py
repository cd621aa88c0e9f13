"""How long fits take: schedules of sweeps, the runner that reports progress, forecasts of time and memory."""
