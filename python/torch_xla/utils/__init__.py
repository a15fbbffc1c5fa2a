"""`torch_xla.utils`."""
