"""Decisions as functions of values: standard library only, no clock, no input or output."""
