"""Experiments that one scenario cannot show, one module each."""
