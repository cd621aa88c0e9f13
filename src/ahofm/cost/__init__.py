"""What a fit will cost: its plan, times the measured seconds and bytes of a few sweeps over a few rows."""

from ahofm.cost.forecast import Forecast, forecast_fit

__all__ = ["Forecast", "forecast_fit"]
