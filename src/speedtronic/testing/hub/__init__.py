"""A Hugging Face Hub on loopback, to test a run without the network.

It speaks to the real client of ``huggingface_hub`` and fails on demand as the real Hub
was seen to fail.
"""

from speedtronic.testing.hub.emulator import HubEmulator
from speedtronic.testing.hub.faults import FOREVER, Faults
from speedtronic.testing.hub.kinds import KINDS
from speedtronic.testing.hub.quota import Clock, Limits

__all__ = ["FOREVER", "KINDS", "Clock", "Faults", "HubEmulator", "Limits"]
