"""The trackers that come with Speedtronic; each file needs one optional package."""
