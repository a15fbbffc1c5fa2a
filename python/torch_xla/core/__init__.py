"""`torch_xla.core`."""
