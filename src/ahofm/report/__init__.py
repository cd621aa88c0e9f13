"""One page that shows a model: self-contained, works from a file without a network, evaluates the model by itself."""

from ahofm.report.page import Report, page, report, write

__all__ = ["Report", "page", "report", "write"]
